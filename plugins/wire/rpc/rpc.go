// Package rpc is as much of gRPC as a detector and its host need: one question and one answer at a time, over HTTP/2 on a Unix
// socket, with deadlines and statuses. It speaks to any gRPC of any language, and knows no streams, no compression, no TLS,
// no names to resolve and no second attempt. It touches the sockets that it is given a path for, and nothing else.
//
// gRPC's own library is 8 MB of program and some milliseconds at every start, which a boot pays twice for each detector: in it, and
// in its host; and a program is hashed before it runs. What arrives from the other side is bounded everywhere.
//
// RFC 9113 is HTTP/2; gRPC over it is github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
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

// Conn is a connection. *os.File of a socket is one, and so is net.Conn.
type Conn interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
}

// Code says of what kind an error is (google.golang.org/grpc/codes).
type Code uint32

// The codes that this package tells itself, and those that its users look at.
const (
	OK                Code = 0
	Canceled          Code = 1
	Unknown           Code = 2
	InvalidArgument   Code = 3
	DeadlineExceeded  Code = 4
	ResourceExhausted Code = 8
	Unimplemented     Code = 12
	Internal          Code = 13
	Unavailable       Code = 14
)

// String is the code's name, as gRPC's libraries print it.
func (c Code) String() string {
	names := [...]string{"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "PermissionDenied",
		"ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal", "Unavailable", "DataLoss", "Unauthenticated"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Code(%d)", uint32(c))
}

// Status is the error of a call.
type Status struct {
	Code    Code
	Message string
}

// Error implements error.
func (s *Status) Error() string { return fmt.Sprintf("%s (%s)", s.Message, s.Code) }

// Errorf makes a Status.
func Errorf(c Code, format string, args ...any) error {
	return &Status{c, fmt.Sprintf(format, args...)}
}

// StatusOf is an error as it goes over the wire: what is none of ours is of an unknown kind, and keeps its words.
func StatusOf(err error) *Status {
	var s *Status
	switch {
	case err == nil:
		return &Status{Code: OK}
	case errors.As(err, &s):
		return s
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return &Status{DeadlineExceeded, err.Error()}
	case errors.Is(err, context.Canceled):
		return &Status{Canceled, err.Error()}
	}
	return &Status{Unknown, err.Error()}
}

// prefix is the length of what goes before a message: whether it is compressed, and four bytes of its size.
const prefix = 5

// sizeOf reads the prefix of a message. There is none yet when ok is false.
func sizeOf(b []byte, most int) (size int, ok bool, err error) {
	if len(b) < prefix {
		return 0, false, nil
	}
	if b[0] != 0 {
		return 0, true, Errorf(Unimplemented, "a message is compressed, and nobody asked for that")
	}
	n := uint64(b[1])<<24 | uint64(b[2])<<16 | uint64(b[3])<<8 | uint64(b[4])
	if n > uint64(most) {
		return 0, true, Errorf(ResourceExhausted, "a message is larger than max: %d bytes, and %d are read", n, most)
	}
	return int(n), true, nil
}

// whole is the one message that came.
func whole(b []byte, most int) ([]byte, error) {
	size, ok, err := sizeOf(b, most)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, Errorf(Internal, "no message came")
	case len(b) != prefix+size:
		return nil, Errorf(Internal, "%d bytes came where one message of %d was announced", len(b)-prefix, size)
	}
	return b[prefix:], nil
}

func framed(message []byte) []byte {
	n := len(message)
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, message...)
}

// percent writes the text of a status as the header grpc-message wants it.
func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unpercent reads it. What is not right stays as it is.
func unpercent(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// timeout writes the time that is left as the header grpc-timeout wants it: at most eight digits and a unit. It is rounded up, so
// that who asks gives up first, and knows why.
func timeout(d time.Duration) string {
	if ms := max(d+time.Millisecond-1, time.Millisecond).Milliseconds(); ms < 1e8 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(int64(d/time.Second), 1e8-1), 10) + "S"
}

// duration reads it.
func duration(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	unit := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}[s[len(s)-1]]
	if err != nil || unit == 0 {
		return 0, false
	}
	if most := uint64(1<<63-1) / uint64(unit); n > most {
		n = most
	}
	return time.Duration(n) * unit, true
}
