package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// Call asks one question over a connection of its own, and closes it. An answer of more than most bytes is refused before it is
// read. The error is a *Status: Unavailable where the connection was at fault, DeadlineExceeded where ctx was, Internal where the
// other side does not keep to the protocol.
func Call(ctx context.Context, conn Conn, method string, request []byte, most int) ([]byte, error) {
	defer conn.Close()
	deadline, limited := ctx.Deadline()
	if limited {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := call{conn: conn, in: newReader(conn), most: most, window: firstWindow, stream: firstWindow, initial: firstWindow, rest: framed(request)}
	left := ""
	if limited {
		left = timeout(time.Until(deadline))
	}
	answer, err := c.do(method, left)
	var s *Status
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, StatusOf(ctx.Err())
	case errors.Is(err, os.ErrDeadlineExceeded), limited && !time.Now().Before(deadline): // the other side has the same deadline
		return nil, &Status{DeadlineExceeded, "it did not answer in its time"}
	case errors.As(err, &s):
		return nil, s
	case errors.Is(err, errProtocol):
		return nil, &Status{Internal, err.Error()}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, &Status{Unavailable, "it closed the connection"}
	}
	return nil, &Status{Unavailable, err.Error()}
}

// the is the number of a call's stream, the first that a client may have.
const the = 1

// call is a client's side. One goroutine writes and reads: what is left to be sent waits for the other side's windows, and
// everything else for its frames.
type call struct {
	conn Conn
	in   *reader
	most int

	rest    []byte // of the request
	window  int64  // of the connection
	stream  int64
	initial int64 // of a stream, as the other side set it

	room     int64 // what may still come
	response bool  // its headers came
	deaf     bool  // it closed the connection; what it said before is still there to be read
	answer   []byte
}

func (c *call) do(method, left string) ([]byte, error) {
	c.room = int64(2*c.most + maxHeaders)
	out := []byte(preface)
	out = appendSettings(out, [2]uint32{settingPush, 0}, [2]uint32{settingWindow, uint32(c.room)}, [2]uint32{settingList, maxHeaders})
	out = appendWindow(out, 0, int(c.room)-firstWindow)
	headers := []string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "localhost", "te", "trailers",
		"content-type", "application/grpc", "user-agent", "prelet"}
	if left != "" {
		headers = append(headers, "grpc-timeout", left)
	}
	out = appendHeaders(out, 0, the, headers...)
	if err := c.send(out); err != nil {
		return nil, err
	}
	for {
		f, err := c.in.frame()
		if err != nil {
			return nil, err
		}
		done, err := c.take(f)
		if err != nil {
			return nil, err
		}
		if done {
			return whole(c.answer, c.most)
		}
	}
}

// send writes frames and as much of the request as fits into the windows.
func (c *call) send(out []byte) error {
	for len(c.rest) > 0 {
		n := min(int64(len(c.rest)), maxFrame, c.window, c.stream)
		if n <= 0 {
			break
		}
		flags := byte(0)
		if int(n) == len(c.rest) {
			flags = flagEnd
		}
		out = appendFrame(out, frameData, flags, the, c.rest[:n])
		c.rest, c.window, c.stream = c.rest[n:], c.window-n, c.stream-n
	}
	if len(out) == 0 || c.deaf {
		return nil
	}
	_, err := c.conn.Write(out)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.deaf = err != nil
	return nil
}

// take looks at one frame. The answer is whole when it says so.
func (c *call) take(f frame) (done bool, err error) {
	switch f.kind {
	case frameSettings:
		if f.has(flagAck) {
			return false, nil
		}
		if err := settings(f.body, func(id uint16, v uint32) error {
			if id == settingWindow {
				if v > maxWindow {
					return fmt.Errorf("%w: a window of %d", errProtocol, v)
				}
				c.stream += int64(v) - c.initial
				c.initial = int64(v)
			}
			return nil
		}); err != nil {
			return false, err
		}
		return false, c.send(appendFrame(nil, frameSettings, flagAck, 0, nil))
	case framePing:
		if f.has(flagAck) {
			return false, nil
		}
		return false, c.send(appendFrame(nil, framePing, flagAck, 0, f.body))
	case frameWindow:
		at := &c.window
		if f.stream == the {
			at = &c.stream
		} else if f.stream != 0 {
			return false, nil
		}
		if *at += window(f.body); *at > maxWindow {
			return false, fmt.Errorf("%w: a window of %d", errProtocol, *at)
		}
		return false, c.send(nil)
	case frameGoAway:
		if window(f.body) < the {
			return false, Errorf(Unavailable, "it goes away: %q", f.body[8:min(len(f.body), 200)])
		}
	case frameReset:
		if f.stream == the {
			return false, reset(uint32(window(f.body)))
		}
	case frameHeaders:
		h, err := c.in.block(f)
		if err != nil || f.stream != the {
			return false, err
		}
		return c.headers(h, f.has(flagEnd))
	case frameData:
		return false, c.data(f)
	case frameMore:
		return false, fmt.Errorf("%w: headers go on that did not begin", errProtocol)
	}
	return false, nil
}

func (c *call) data(f frame) error {
	if c.room -= int64(len(f.body)); c.room < 0 {
		return Errorf(ResourceExhausted, "more came than it was allowed to send")
	}
	if f.stream != the {
		return nil
	}
	b, err := f.content()
	if err != nil {
		return err
	}
	if !c.response {
		return fmt.Errorf("%w: an answer without headers", errProtocol)
	}
	c.answer = append(c.answer, b...)
	if _, _, err := sizeOf(c.answer, c.most); err != nil {
		return err
	}
	if f.has(flagEnd) {
		return Errorf(Internal, "it ended its answer without a status")
	}
	return nil
}

// headers are those before the answer, those behind it, or both in one.
func (c *call) headers(h map[string]string, end bool) (done bool, err error) {
	if !c.response {
		if status := h[":status"]; status != "200" {
			if len(status) == 3 && status[0] == '1' && !end {
				return false, nil // there will be others
			}
			return false, Errorf(httpCode(status), "it answers with HTTP's status %q", status)
		}
		if t := h["content-type"]; !strings.HasPrefix(t, "application/grpc") {
			return false, Errorf(Unknown, "it answers with %q, which is not gRPC", t)
		}
		c.response = true
	} else if !end {
		return false, fmt.Errorf("%w: headers inside an answer", errProtocol)
	}
	if !end {
		return false, nil
	}
	code, err := strconv.ParseUint(h["grpc-status"], 10, 32)
	if err != nil {
		return false, Errorf(Internal, "it ended its answer without a status")
	}
	if code != 0 {
		return false, &Status{Code(code), unpercent(h["grpc-message"])}
	}
	return true, nil
}

// httpCode is what gRPC takes a status of HTTP for.
func httpCode(status string) Code {
	switch status {
	case "400":
		return Internal
	case "404":
		return Unimplemented
	case "429", "502", "503", "504":
		return Unavailable
	}
	return Unknown
}

// reset is what gRPC takes the end of a stream for.
func reset(code uint32) error {
	kind := map[uint32]Code{codeRefused: Unavailable, codeCancel: Canceled, codeEnhance: ResourceExhausted, codeSecurity: 7}[code]
	if kind == OK {
		kind = Internal
	}
	return Errorf(kind, "it ended the call (HTTP/2 error %d)", code)
}
