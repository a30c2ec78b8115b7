package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/textproto"
	"strconv"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// maxMessage is the size in bytes of the largest message that is read: a text of a few files, escaped.
const maxMessage = 16 << 20

// stream is the framing of the protocol. A message that is not valid JSON, or too large, gets an error as its response,
// and the next one is read; a broken header ends the session, because the place of the next message is not known.
type stream struct {
	in     *textproto.Reader
	source *bufio.Reader
	log    *log.Logger

	mu     sync.Mutex
	closed bool
	out    io.Writer
}

func newStream(in io.Reader, out io.Writer, log *log.Logger) *stream {
	source := bufio.NewReader(in)

	return &stream{in: textproto.NewReader(source), source: source, log: log, out: out}
}

// ReadObject implements jsonrpc2.ObjectStream. A broken header is logged here: the connection would log it only after
// it has ended Serve.
func (s *stream) ReadObject(v any) error {
	for {
		if s.isClosed() {
			return io.EOF
		}

		body, err := s.readBody()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				s.log.Printf("reading the client's messages: %v", err)
			}

			return io.EOF
		}

		code, problem := int64(0), ""
		switch {
		case body == nil:
			code, problem = jsonrpc2.CodeInvalidRequest, "a message may have 16 MiB"
		case !json.Valid(body):
			code, problem = jsonrpc2.CodeParseError, "the message is not JSON"
		default:
			if err := json.Unmarshal(body, v); err == nil {
				return nil
			} else {
				code, problem = jsonrpc2.CodeInvalidRequest, err.Error()
			}
		}
		if err := s.refuse(code, problem); err != nil {
			return err
		}
	}
}

// readBody returns the body of the next message; nil for one that is too large, which is skipped.
func (s *stream) readBody() ([]byte, error) {
	header, err := s.in.ReadMIMEHeader()
	if err != nil {
		return nil, err
	}
	length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		return nil, fmt.Errorf("invalid Content-Length %q", header.Get("Content-Length"))
	}

	if length > maxMessage {
		_, err := io.CopyN(io.Discard, s.source, length)
		return nil, err
	}
	body := make([]byte, length)
	_, err = io.ReadFull(s.source, body)

	return body, err
}

// refuse answers a message whose id could not be read.
func (s *stream) refuse(code int64, message string) error {
	return s.WriteObject(map[string]any{
		"jsonrpc": "2.0",
		"id":      nil,
		"error":   jsonrpc2.Error{Code: code, Message: message},
	})
}

// WriteObject implements jsonrpc2.ObjectStream.
func (s *stream) WriteObject(obj any) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return jsonrpc2.ErrClosed
	}
	_, err = fmt.Fprintf(s.out, "Content-Length: %d\r\n\r\n%s", len(body), body)

	return err
}

// Close implements jsonrpc2.ObjectStream: no further message is read or written. The caller of Serve closes the reader
// and the writer themselves.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true

	return nil
}

func (s *stream) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.closed
}
