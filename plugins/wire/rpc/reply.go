package rpc

import (
	"errors"
	"strconv"
	"strings"
)

// contentType is that of all that is said.
const contentType = "application/grpc"

// reply writes an answer in as many pieces as the other side has room for.
func (c *connection) reply(s *stream, answer []byte, err error) error {
	if err != nil {
		status := StatusOf(err)
		message := percent(status.Message)
		const most = 24 << 10 // of a header that others read
		if len(message) > most {
			message = percent(strings.ToValidUTF8(status.Message[:most/3], ""))
		}
		return c.write(appendHeaders(nil, flagEnd, s.id, ":status", "200", "content-type", contentType,
			"grpc-status", strconv.Itoa(int(status.Code)), "grpc-message", message))
	}
	out := appendHeaders(nil, 0, s.id, ":status", "200", "content-type", contentType)
	for rest := framed(answer); len(rest) > 0; {
		n, err := c.claim(s, len(rest), len(out) > 0)
		if err != nil {
			return err
		}
		if n > 0 {
			out = appendFrame(out, frameData, 0, s.id, rest[:n])
			rest = rest[n:]
		}
		if len(rest) == 0 {
			break
		}
		if n == 0 || len(out) > 4*maxFrame {
			if err := c.write(out); err != nil {
				return err
			}
			out = nil
		}
	}
	return c.write(appendHeaders(out, flagEnd, s.id, "grpc-status", "0"))
}

// errOver is a call whose caller is gone.
var errOver = errors.New("nobody waits for the answer")

// claim takes room for one frame of at most want bytes out of the windows. It waits for some, unless there is something to be
// written first: then it is 0.
func (c *connection) claim(s *stream, want int, pending bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.over || c.streams[s.id] != s {
			return 0, errOver
		}
		if n := min(int64(want), maxFrame, c.window, s.window); n > 0 {
			c.window, s.window = c.window-n, s.window-n
			return int(n), nil
		}
		if pending {
			return 0, nil
		}
		c.room.Wait()
	}
}
