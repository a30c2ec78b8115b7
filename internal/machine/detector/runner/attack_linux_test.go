package runner

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/prelet/prelet/internal/machine/detector/wire"
	"github.com/prelet/prelet/plugins/contract"
	detectorv1 "github.com/prelet/prelet/plugins/proto/detector/v1"
)

// peer is a detector's side of a connection that sends any frames, in any order.
type peer struct {
	t *testing.T
	*http2.Framer
	conn    net.Conn
	decoder *hpack.Decoder
}

// write sends raw bytes.
func (p peer) write(parts ...[]byte) {
	_, _ = p.conn.Write(bytes.Join(parts, nil)) // the client may have closed it
}

// call waits for the call of Detect and returns its stream, or 0 when the client is gone.
func (p peer) call() uint32 {
	for {
		f := p.next()
		if f == nil {
			return 0
		}
		if method := p.method(f); strings.HasSuffix(method, "/Detect") {
			return f.Header().StreamID
		} else if strings.HasSuffix(method, "/StartStream") {
			p.t.Errorf("got a call of %s; want none", method)
		}
	}
}

// next returns the next frame, nil when the client is gone. It acknowledges settings.
func (p peer) next() http2.Frame {
	f, err := p.ReadFrame()
	if err != nil {
		return nil
	}
	if s, ok := f.(*http2.SettingsFrame); ok && !s.IsAck() {
		_ = p.WriteSettingsAck()
	}

	return f
}

// method returns the path of the call that a frame begins; "" where it begins none. Each frame may be asked for once.
func (p peer) method(f http2.Frame) string {
	h, ok := f.(*http2.HeadersFrame)
	if !ok {
		return ""
	}

	fields, err := p.decoder.DecodeFull(h.HeaderBlockFragment())
	if err != nil {
		p.t.Error(err)
	}
	for _, field := range fields {
		if field.Name == ":path" {
			return field.Value
		}
	}

	return ""
}

// answer sends a whole answer.
func (p peer) answer(stream uint32, b []byte) {
	p.begin(stream)
	p.data(stream, b)
	p.end(stream)
}

// pack returns header fields as a block.
func pack(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}

	return b.Bytes()
}

// headers sends a block of header fields.
func (p peer) headers(stream uint32, end bool, fields ...string) {
	_ = p.WriteHeaders(
		http2.HeadersFrameParam{StreamID: stream, BlockFragment: pack(fields...), EndHeaders: true, EndStream: end},
	)
}

// begin sends the headers of an answer.
func (p peer) begin(stream uint32, more ...string) {
	p.headers(stream, false, append([]string{":status", "200", "content-type", "application/grpc"}, more...)...)
}

// end sends the trailers of a call that succeeded.
func (p peer) end(stream uint32) { p.headers(stream, true, "grpc-status", "0") }

// message returns an answer with one warning as gRPC frames it.
func message(t *testing.T, warning string) []byte {
	b, err := proto.Marshal(&detectorv1.DetectResponse{Warnings: []string{warning}})
	must(t, err)

	return framed(0, b)
}

func framed(compressed byte, b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{compressed}, uint32(len(b))), b...)
}

// bomb returns 256 MiB of zeros as gzip packs them.
func bomb() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	size := 256
	if raceDetector { // which takes longer over that than a detector has
		size = 32
	}
	for range size {
		_, _ = w.Write(zeros)
	}
	_ = w.Close()

	return b.Bytes()
}

// data sends bytes in frames of the size that everybody takes.
func (p peer) data(stream uint32, b []byte) {
	const frame = 16 << 10
	for ; len(b) > frame; b = b[frame:] {
		_ = p.WriteData(stream, false, b[:frame])
	}
	_ = p.WriteData(stream, false, b)
}

// detect asks a peer as prelet-detect asks a detector.
func detect(ctx context.Context, t *testing.T, behave func(peer)) (contract.Answer, error) {
	folder := t.TempDir()
	path := filepath.Join(folder, "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })

	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })

			go func() {
				if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				f := http2.NewFramer(conn, conn)
				f.AllowIllegalWrites = true
				behave(peer{t, f, conn, hpack.NewDecoder(4096, nil)})
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()

	var reply wire.Reply
	c, err := connect(ctx, &detector{socket: path, ended: make(chan struct{})})
	if err == nil {
		err = ask(ctx, c, wire.Request{Ask: wire.Detect}, &reply)
	}
	if err != nil {
		return contract.Answer{}, err
	}

	return *reply.Answer, nil
}

// attack is a detector's behaviour, and what comes of it.
type attack struct {
	behave func(peer)
	want   string // in the error; "" for an answer
	large  bool   // it takes all of its memory, and may end prelet-detect
}

// attacks returns each attack by its name.
func attacks(t *testing.T) map[string]attack {
	// answer is the attack of a peer that sends settings first and then, when Detect was called, what send sends.
	answer := func(want string, send func(p peer, stream uint32)) attack {
		return attack{want: want, behave: func(p peer) {
			_ = p.WriteSettings()
			if stream := p.call(); stream != 0 {
				send(p, stream)
			}
		}}
	}
	tiny := answer("", func(p peer, s uint32) { // 1 MiB in frames of a byte, each of which grpc-go keeps
		out := bufio.NewWriter(p.conn)
		tiny := http2.NewFramer(out, nil)
		b := message(t, strings.Repeat("w", contract.MaxAnswer-100))
		p.begin(s)
		for i := range b {
			_ = tiny.WriteData(s, false, b[i:i+1])
		}
		_ = out.Flush()
		p.end(s)
	})
	tiny.large = true
	good := message(t, "w")

	return map[string]attack{
		"plain": answer("", func(p peer, s uint32) {
			p.answer(s, good)
		}),
		"in pieces": answer("", func(p peer, s uint32) {
			p.begin(s)
			p.data(s, good[:2])
			p.data(s, nil)
			_ = p.WriteDataPadded(s, false, good[2:], make([]byte, 100))
			p.end(s)
		}),
		"split headers": answer("", func(p peer, s uint32) {
			block := pack(":status", "200", "content-type", "application/grpc+proto")
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block[:3]})
			_ = p.WriteContinuation(s, true, block[3:])
			p.data(s, good)
			p.end(s)
		}),
		"unknown frames": answer("", func(p peer, s uint32) {
			_ = p.WriteRawFrame(99, 255, 7, []byte("abc"))
			_ = p.WritePing(false, [8]byte{})
			p.answer(s, good)
		}),
		"closes": {behave: func(p peer) { _ = p.conn.Close() }, want: "its socket does not answer"},
		"closes in headers": answer("its socket does not answer", func(p peer, s uint32) {
			p.write([]byte{0, 0, 50, 1, 4, 0, 0, 0, byte(s), 1, 2, 3})
			_ = p.conn.Close()
		}),
		"HTTP/1": {
			behave: func(p peer) { p.write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
			want:   "does not speak HTTP/2",
		},
		"no settings": {behave: func(p peer) { _ = p.WritePing(false, [8]byte{}) }, want: "does not speak HTTP/2"},
		"silent":      {behave: func(peer) {}, want: "it exceeded its deadline"},
		"no answer":   answer("it exceeded its deadline", func(peer, uint32) {}),
		"large frame": answer("does not speak HTTP/2", func(p peer, s uint32) { p.write([]byte{255, 255, 255, 0, 0, 0, 0, 0, byte(s)}, make([]byte, 1<<20)) }),
		"data first":  answer("(Internal)", func(p peer, s uint32) { _ = p.WriteData(s, true, good) }),
		"not found":   answer("it speaks HTTP and not gRPC", func(p peer, s uint32) { p.headers(s, true, ":status", "404") }),
		"a page": answer("it speaks HTTP and not gRPC", func(p peer, s uint32) {
			p.headers(s, false, ":status", "200", "content-type", "text/html")
			_ = p.WriteData(s, true, []byte("<html>"))
		}),
		"no status": answer("(Internal)", func(p peer, s uint32) { p.begin(s); _ = p.WriteData(s, true, good) }),
		"odd status": answer("malformed grpc-status", func(p peer, s uint32) {
			p.begin(s)
			p.data(s, good)
			p.headers(s, true, "grpc-status", "ok")
		}),
		"empty": answer("(Internal)", func(p peer, s uint32) { p.begin(s); p.end(s) }),
		"two answers": answer("(Internal)", func(p peer, s uint32) {
			p.answer(s, append(good, good...))
		}),
		"too large": answer("larger than 1024 KiB", func(p peer, s uint32) { p.begin(s); p.data(s, []byte{0, 0, 16, 0, 1}) }),
		"4 GiB":     answer("larger than 1024 KiB", func(p peer, s uint32) { p.begin(s); p.data(s, []byte{0, 255, 255, 255, 255}) }),
		"garbage": answer("its answer cannot be read", func(p peer, s uint32) {
			p.answer(s, framed(0, []byte{0xff, 0xff}))
		}),
		"gzip bomb": answer("its answer is compressed", func(p peer, s uint32) {
			p.begin(s, "grpc-encoding", "gzip")
			p.data(s, framed(1, bomb()))
			p.end(s)
		}),
		"compressed": answer("its answer is compressed", func(p peer, s uint32) {
			p.answer(s, framed(1, []byte("x")))
		}),
		"a push": answer("it exceeded its deadline", func(p peer, s uint32) {
			_ = p.WritePushPromise(
				http2.PushPromiseParam{StreamID: s, PromiseID: 2, BlockFragment: pack(":path", "/x"), EndHeaders: true},
			)
		}),
		"header bomb": answer("(Internal)", func(p peer, s uint32) {
			block := append(
				pack(":status", "200", "content-type", "application/grpc", "x", strings.Repeat("y", 3000)),
				bytes.Repeat([]byte{0xbe}, 10000)...)
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block, EndHeaders: true})
		}),
		"headers without end": answer("does not speak HTTP/2", func(p peer, s uint32) {
			err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: s})
			for err == nil {
				err = p.WriteContinuation(s, false, make([]byte, 16<<10))
			}
		}),
		"large window": answer("", func(p peer, s uint32) {
			_ = p.WriteWindowUpdate(0, 1<<31-1)
			_ = p.WriteWindowUpdate(s, 1<<31-1)
			p.answer(s, good)
		}),
		"goes away": answer("its socket does not answer", func(p peer, _ uint32) { _ = p.WriteGoAway(0, http2.ErrCodeNo, []byte("full")); _ = p.conn.Close() }),
		"refuses each": answer("its socket does not answer", func(p peer, s uint32) {
			for ; s != 0; s = p.call() {
				_ = p.WriteRSTStream(s, http2.ErrCodeRefusedStream)
			}
		}),
		"cancelled": answer("(Canceled)", func(p peer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeCancel) }),
		"reset":     answer("(Internal)", func(p peer, s uint32) { _ = p.WriteRSTStream(s, http2.ErrCodeInternal) }),
		"settings flood": {behave: func(p peer) {
			var err error
			for err == nil {
				err = p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
			}
		}, want: "it exceeded its deadline"},
		"data flood": answer("its answer cannot be read", func(p peer, s uint32) {
			p.begin(s)
			err := p.WriteData(s, false, []byte{0, 0, 15, 255, 255})
			for err == nil {
				err = p.WriteData(s, false, make([]byte, 16<<10))
			}
		}),
		"flood of another stream": answer("it exceeded its deadline", func(p peer, s uint32) {
			var err error
			for err == nil {
				err = p.WriteData(s+100, false, make([]byte, 16<<10))
			}
		}),
		"many headers": answer("(Internal)", func(p peer, s uint32) { // 100 KiB of them
			block := append(pack(":status", "200", "content-type", "application/grpc", "x", strings.Repeat("y", 3000)),
				bytes.Repeat([]byte{0xbe}, 33)...)
			_ = p.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block, EndHeaders: true})
			p.data(s, good)
			p.end(s)
		}),
		"tiny frames": tiny,
	}
}

// attackVariable names the attack that a process of this program undergoes.
const attackVariable = "PRELET_TEST_ATTACK"

// TestAttacks: whatever a detector sends, the call ends in its time, with an answer or a reason, in bounded memory.
// Each attack has a process of its own, with the limit of memory that prelet-detect has.
func TestAttacks(t *testing.T) {
	all := attacks(t)
	if name := os.Getenv(attackVariable); name != "" {
		undergo(t, all[name])
		return
	}

	self, err := os.Executable()
	must(t, err)
	for name, attack := range all {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestAttacks$", "-test.v")
			cmd.Env = append(os.Environ(), attackVariable+"="+name)

			out, err := cmd.CombinedOutput()

			t.Logf("%.2000s", out) // a crash is long
			const crash = 2        // of Go's runtime; a test that fails exits with 1
			if attack.large && cmd.ProcessState.ExitCode() == crash {
				return
			}
			if err != nil {
				t.Errorf("got %v; want success", err)
			}
		})
	}
}

// memory is the limit of memory of a process that is attacked, in bytes: detector.MinMemory.
const memory = 128 << 20

// undergo asks a detector that attacks, and measures the time and the memory. The detector's own memory counts too.
func undergo(t *testing.T, test attack) {
	if !raceDetector { // which takes terabytes
		must(t, unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: memory, Max: memory}))
	}
	limit := 5 * time.Minute                     // a busy machine is not an attack
	if test.want == "it exceeded its deadline" { // it takes all of its time
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	began := time.Now()
	a, err := detect(ctx, t, test.behave)
	took := time.Since(began)

	var stats runtime.MemStats
	runtime.ReadMemStats(&stats) // Sys never shrinks
	t.Logf("%v, %d MiB, %v", took.Round(time.Millisecond), stats.Sys>>20, err)
	if got, most := stats.Sys>>20, uint64(memory>>20)/4; got > most && !test.large {
		t.Errorf("got %d MiB from the system; want at most %d", got, most)
	}
	switch {
	case test.want == "" && (err != nil || len(a.Warnings) != 1):
		t.Errorf("got %+v, %v; want an answer with one warning", a, err)
	case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
		t.Errorf("got %v; want an error with %q", err, test.want)
	}
	if most := limit + time.Minute; took > most {
		t.Errorf("it took %v; want at most %v", took, most)
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
