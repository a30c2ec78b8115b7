// Package cri asks a container runtime two things over its socket: what it is, and which cgroup driver it has. It touches that
// socket, and starts nothing.
//
// The runtime speaks gRPC. Two calls without an argument on one connection need no library for that: their requests are always
// the same bytes, and of the answers only the messages count. A call that fails has none; why is no matter, because a kubelet
// that learns nothing there goes by its own configuration.
package cri

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// Runtime is what a runtime told. A field that it did not tell is "".
type Runtime struct {
	Name    string // containerd, cri-o
	Version string // 1.6.20~ds1, v2.0.1
	Driver  string // of its cgroups, systemd or cgroupfs: from containerd 2.0 and CRI-O 1.28 on
}

// The kinds of frames that count, and their flags (RFC 9113, section 6).
const (
	frameData     = 0
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
	frameGoAway   = 7

	flagEnd    = 1 // of a stream
	flagAck    = 1 // of settings
	flagAll    = 4 // of headers
	flagPadded = 8

	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	maxFrame = 16 << 10 // nobody is told that it may be more
	maxRead  = 64 << 10 // in all
)

// The calls by their streams (k8s.io/cri-api/pkg/apis/runtime/v1/api.proto).
const (
	version = 1
	config  = 3
)

var errProtocol = errors.New("what it sends is not gRPC over HTTP/2")

// Ask asks the runtime at a socket, for as long as ctx lets it. What it told until then is there also with an error.
func Ask(ctx context.Context, socket string) (r Runtime, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // a connection that is closed needs none
	defer stop()
	return talk(conn)
}

func talk(conn io.ReadWriter) (r Runtime, err error) {
	if _, err := conn.Write(slices.Concat([]byte(preface), frame(frameSettings, 0, 0, ""), call(version, "Version"), call(config, "RuntimeConfig"))); err != nil {
		return r, err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxRead))
	said := map[uint32][]byte{}
	for ended := map[uint32]bool{}; !ended[version] || !ended[config]; {
		kind, flags, stream, body, err := readFrame(in)
		if err != nil {
			return told(said), err
		}
		switch kind {
		case frameSettings:
			if flags&flagAck == 0 {
				if _, err := conn.Write(frame(frameSettings, flagAck, 0, "")); err != nil {
					return told(said), err
				}
			}
		case frameData:
			if flags&flagPadded != 0 {
				return told(said), errProtocol
			}
			said[stream] = append(said[stream], body...)
			ended[stream] = ended[stream] || flags&flagEnd != 0
		case frameHeaders:
			ended[stream] = ended[stream] || flags&flagEnd != 0
		case frameReset:
			ended[stream] = true
		case frameGoAway:
			return told(said), errors.New("it closes the connection")
		}
	}
	return told(said), nil
}

// told reads the answers: VersionResponse has the name in field 2 and the version in field 3; RuntimeConfigResponse in field 1 a
// message about Linux, and there in field 1 the driver, systemd 0 and cgroupfs 1, where 0 is left out.
func told(said map[uint32][]byte) (r Runtime) {
	_ = fields(message(said[version]), func(n, _ uint64, text []byte) {
		switch n {
		case 2:
			r.Name = printable(text)
		case 3:
			r.Version = printable(text)
		}
	})
	_ = fields(message(said[config]), func(n, _ uint64, linux []byte) {
		if n != 1 || linux == nil {
			return
		}
		r.Driver = "systemd"
		err := fields(linux, func(n, v uint64, _ []byte) {
			if n == 1 {
				r.Driver = map[uint64]string{0: "systemd", 1: "cgroupfs"}[v]
			}
		})
		if err != nil {
			r.Driver = ""
		}
	})
	return r
}

// message is the one of an answer, without the head that says that it is not compressed and how long it is.
func message(b []byte) []byte {
	if len(b) < 5 || b[0] != 0 || uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-5) {
		return nil
	}
	return b[5:]
}

// printable is a short text of letters, digits and signs, or nothing: it is told further.
func printable(b []byte) string {
	if len(b) > 64 {
		return ""
	}
	for _, c := range b {
		if c <= ' ' || c > '~' {
			return ""
		}
	}
	return string(b)
}

// fields goes through a message of Protocol Buffers: numbers, and what has a length (never nil).
func fields(b []byte, f func(n, v uint64, b []byte)) error {
	for len(b) > 0 {
		tag, k := binary.Uvarint(b)
		if k <= 0 || tag&7 != 0 && tag&7 != 2 {
			return errProtocol
		}
		v, l := binary.Uvarint(b[k:])
		if l <= 0 {
			return errProtocol
		}
		b = b[k+l:]
		if tag&7 == 0 {
			f(tag>>3, v, nil)
			continue
		}
		if v > uint64(len(b)) {
			return errProtocol
		}
		f(tag>>3, 0, b[:v:v])
		b = b[v:]
	}
	return nil
}

func readFrame(in io.Reader) (kind, flags byte, stream uint32, body []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, 0, 0, nil, err
	}
	n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	if n > maxFrame {
		return 0, 0, 0, nil, fmt.Errorf("%w: a frame of %d bytes", errProtocol, n)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(in, body)
	return head[3], head[4], binary.BigEndian.Uint32(head[5:]) & (1<<31 - 1), body, err
}

func frame(kind, flags byte, stream uint32, body string) []byte {
	head := [9]byte{1: byte(len(body) >> 8), 2: byte(len(body)), 3: kind, 4: flags, 8: byte(stream)}
	return append(head[:], body...)
}

// call is a request without an argument. Its headers are literals that nobody has to remember (RFC 7541, section 6.2.2), each
// with the lengths of its name and of its value.
func call(stream uint32, method string) []byte {
	const before, path = "\x00\x07:method\x04POST\x00\x07:scheme\x04http\x00\x0a:authority\x09localhost\x00\x05:path", "/runtime.v1.RuntimeService/"
	const behind = "\x00\x02te\x08trailers\x00\x0ccontent-type\x10application/grpc"
	packed := before + string(rune(len(path)+len(method))) + path + method + behind // shorter than 127
	return append(frame(frameHeaders, flagAll, stream, packed), frame(frameData, flagEnd, stream, "\x00\x00\x00\x00\x00")...)
}
