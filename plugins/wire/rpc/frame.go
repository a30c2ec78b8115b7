package rpc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2/hpack"
)

// The kinds of frames (RFC 9113, section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	framePush     = 5
	framePing     = 6
	frameGoAway   = 7
	frameWindow   = 8
	frameMore     = 9 // CONTINUATION
)

// Their flags.
const (
	flagEnd       = 1 // of a stream; of settings and pings: an acknowledgement
	flagAll       = 4 // of the headers
	flagPadded    = 8
	flagPriority  = 32
	flagAck       = flagEnd
	settingPush   = 2
	settingMany   = 3
	settingWindow = 4
	settingList   = 6
)

// Bounds, and what HTTP/2 begins with.
const (
	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	maxFrame    = 16 << 10 // of what is sent and received: nobody is told that it may be more
	maxHeaders  = 64 << 10 // of one block of headers, packed and unpacked
	maxPieces   = 32       // of one block: they may be empty
	firstWindow = 65535
	maxWindow   = 1<<31 - 1
	headerTable = 4096
)

// Why a stream is ended by one side (section 7).
const (
	codeNone     = 0
	codeRefused  = 7
	codeCancel   = 8
	codeEnhance  = 11
	codeSecurity = 12
)

// errProtocol is another side that does not speak HTTP/2 as it should.
var errProtocol = errors.New("what it sends is not HTTP/2 as gRPC has it")

type frame struct {
	kind, flags byte
	stream      uint32
	body        []byte // until the next one is read
}

func (f frame) has(flag byte) bool { return f.flags&flag != 0 }

// reader reads frames, and puts headers together.
type reader struct {
	in      *bufio.Reader
	buf     []byte
	unpack  *hpack.Decoder
	headers map[string]string
	size    int
}

func newReader(r io.Reader) *reader {
	x := &reader{in: bufio.NewReaderSize(r, maxFrame)}
	x.unpack = hpack.NewDecoder(headerTable, x.header)
	x.unpack.SetMaxStringLength(maxHeaders)
	return x
}

// header takes one; of several with one name the first.
func (r *reader) header(f hpack.HeaderField) {
	if r.size += len(f.Name) + len(f.Value); r.size > maxHeaders {
		return
	}
	if _, twice := r.headers[f.Name]; !twice {
		r.headers[f.Name] = f.Value
	}
}

func (r *reader) frame() (f frame, err error) {
	var head [9]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return f, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if n > maxFrame {
		return f, fmt.Errorf("%w: a frame of %d bytes", errProtocol, n)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n, max(n, 4<<10))
	}
	f = frame{kind: head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]) & maxWindow, body: r.buf[:n]}
	if _, err := io.ReadFull(r.in, f.body); err != nil {
		return f, err
	}
	return f, f.check()
}

// check looks at what every frame of its kind must be.
func (f frame) check() error {
	wrong := false
	switch f.kind {
	case frameData, frameHeaders, frameMore:
		wrong = f.stream == 0
	case frameReset:
		wrong = f.stream == 0 || len(f.body) != 4
	case frameSettings:
		wrong = f.stream != 0 || len(f.body)%6 != 0
	case framePing:
		wrong = f.stream != 0 || len(f.body) != 8
	case frameGoAway:
		wrong = f.stream != 0 || len(f.body) < 8
	case frameWindow:
		wrong = len(f.body) != 4
	case framePush:
		wrong = true // refused by both sides
	}
	if wrong {
		return fmt.Errorf("%w: a frame of kind %d with %d bytes for stream %d", errProtocol, f.kind, len(f.body), f.stream)
	}
	return nil
}

// content is a frame's body without padding and priority.
func (f frame) content() ([]byte, error) {
	b, pad := f.body, 0
	if f.has(flagPadded) {
		if len(b) == 0 {
			return nil, fmt.Errorf("%w: padding without a length", errProtocol)
		}
		pad, b = int(b[0]), b[1:]
	}
	if f.kind == frameHeaders && f.has(flagPriority) {
		if len(b) < 5 {
			return nil, fmt.Errorf("%w: headers without their priority", errProtocol)
		}
		b = b[5:]
	}
	if pad > len(b) {
		return nil, fmt.Errorf("%w: more padding than frame", errProtocol)
	}
	return b[:len(b)-pad], nil
}

// block reads what follows a frame of headers until they are whole, and unpacks them. The other side's packing has a memory, so
// each block must be read, whosever it is.
func (r *reader) block(f frame) (map[string]string, error) {
	b, err := f.content()
	if err != nil {
		return nil, err
	}
	packed := append([]byte(nil), b...)
	for pieces := 1; !f.has(flagAll); pieces++ {
		next, err := r.frame()
		if err != nil {
			return nil, err
		}
		if next.kind != frameMore || next.stream != f.stream || len(packed)+len(next.body) > maxHeaders || pieces == maxPieces {
			return nil, fmt.Errorf("%w: headers that do not end", errProtocol)
		}
		packed, f.flags = append(packed, next.body...), f.flags|next.flags&flagAll
	}
	r.headers, r.size = map[string]string{}, 0
	if _, err := r.unpack.Write(packed); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if err := r.unpack.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if r.size > maxHeaders {
		return nil, fmt.Errorf("%w: headers of more than %d KiB", errProtocol, maxHeaders>>10)
	}
	return r.headers, nil
}

// window reads the number of a WINDOW_UPDATE or of a setting.
func window(b []byte) int64 { return int64(binary.BigEndian.Uint32(b) & maxWindow) }

// settings calls f for each setting of a frame.
func settings(b []byte, f func(id uint16, v uint32) error) error {
	for ; len(b) >= 6; b = b[6:] {
		if err := f(binary.BigEndian.Uint16(b), binary.BigEndian.Uint32(b[2:])); err != nil {
			return err
		}
	}
	return nil
}

func appendFrame(b []byte, kind, flags byte, stream uint32, body []byte) []byte {
	n := len(body)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(b, body...)
}

func appendSettings(b []byte, list ...[2]uint32) []byte {
	var body []byte
	for _, s := range list {
		body = binary.BigEndian.AppendUint16(body, uint16(s[0]))
		body = binary.BigEndian.AppendUint32(body, s[1])
	}
	return appendFrame(b, frameSettings, 0, 0, body)
}

func appendWindow(b []byte, stream uint32, more int) []byte {
	return appendFrame(b, frameWindow, 0, stream, binary.BigEndian.AppendUint32(nil, uint32(more)))
}

func appendReset(b []byte, stream uint32, code uint32) []byte {
	return appendFrame(b, frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// appendHeaders writes pairs of names and values as literals that nobody has to remember (RFC 7541, section 6.2.2): right
// whatever table the other side has. They are cut into frames where they are long.
func appendHeaders(b []byte, flags byte, stream uint32, pairs ...string) []byte {
	var packed []byte
	for i := 0; i < len(pairs); i += 2 {
		packed = append(packed, 0)
		for _, s := range pairs[i : i+2] {
			packed = appendLength(packed, len(s))
			packed = append(packed, s...)
		}
	}
	kind := byte(frameHeaders)
	for len(packed) > maxFrame {
		b = appendFrame(b, kind, flags, stream, packed[:maxFrame])
		packed, kind, flags = packed[maxFrame:], frameMore, 0
	}
	return appendFrame(b, kind, flags|flagAll, stream, packed)
}

// appendLength writes a number with a prefix of seven bits (section 5.1).
func appendLength(b []byte, n int) []byte {
	if n < 127 {
		return append(b, byte(n))
	}
	return binary.AppendUvarint(append(b, 127), uint64(n-127))
}
