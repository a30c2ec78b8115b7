package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/prelet/prelet/plugins/wire/rpc"
)

// most is what both sides of these tests read.
const most = 1 << 20

// methods are what both servers answer: gRPC's own and ours.
func methods() map[string]rpc.Handler {
	return map[string]rpc.Handler{
		"/test.Service/Echo":  func(_ context.Context, b []byte) ([]byte, error) { return b, nil },
		"/test.Service/Empty": func(context.Context, []byte) ([]byte, error) { return nil, nil },
		"/test.Service/Large": func(context.Context, []byte) ([]byte, error) { return make([]byte, most+1), nil },
		"/test.Service/Says":  func(_ context.Context, b []byte) ([]byte, error) { return nil, rpc.Errorf(9, "%s", b) },
		"/test.Service/Plain": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("the driver is too old") },
		"/test.Service/Left": func(ctx context.Context, _ []byte) ([]byte, error) {
			d, ok := ctx.Deadline()
			return fmt.Append(nil, ok, " ", time.Until(d) > 0 && time.Until(d) <= time.Minute), nil
		},
		"/test.Service/Hang": func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
}

// bytesCodec passes messages as they are.
type bytesCodec struct{}

// Marshal implements encoding.CodecV2.
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (bytesCodec) Unmarshal(b mem.BufferSlice, v any) error {
	*v.(*[]byte) = b.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (bytesCodec) Name() string { return "proto" }

// asker asks one question.
type asker func(ctx context.Context, method string, request []byte) ([]byte, error)

// theirServer answers with gRPC's library.
func theirServer(t *testing.T, o ...grpc.ServerOption) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, path)
	s := grpc.NewServer(append(o, grpc.ForceServerCodecV2(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		name, _ := grpc.MethodFromServerStream(stream)
		f := methods()[name]
		if f == nil {
			return status.Error(codes.Unimplemented, "there is no method "+name)
		}
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		answer, err := f(stream.Context(), request)
		var s *rpc.Status
		if errors.As(err, &s) {
			return status.Error(codes.Code(s.Code), s.Message)
		}
		if err != nil {
			return err
		}
		return stream.SendMsg(&answer)
	}))...)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return path
}

// ourServer answers with this package.
func ourServer(t *testing.T) (path string, s *rpc.Server, ended chan error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := rpc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	s, ended = &rpc.Server{Methods: methods(), Most: most, Last: "/test.Service/Empty"}, make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(s.Stop)
	return path, s, ended
}

// ours asks with this package, each question over a new connection.
func ours(t *testing.T, path string) asker {
	return func(ctx context.Context, method string, request []byte) ([]byte, error) {
		t.Helper()
		c, err := rpc.Dial(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		return rpc.Call(ctx, c, method, request, most)
	}
}

// theirs asks with gRPC's library, all questions over one connection.
func theirs(t *testing.T, path string) asker {
	t.Helper()
	c, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func(ctx context.Context, method string, request []byte) (answer []byte, err error) {
		err = c.Invoke(ctx, method, &request, &answer, grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(most))
		if s, ok := status.FromError(err); ok && err != nil {
			err = &rpc.Status{Code: rpc.Code(s.Code()), Message: s.Message()}
		}
		return answer, err
	}
}

// TestEveryPair: the same questions have the same answers, whoever asks and whoever answers.
func TestEveryPair(t *testing.T) {
	our, _, _ := ourServer(t)
	their := theirServer(t)
	long := strings.Repeat("ä%\n", 1000)
	for name, ask := range map[string]asker{"ours of ours": ours(t, our), "theirs of ours": theirs(t, our), "ours of theirs": ours(t, their), "theirs of theirs": theirs(t, their)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, size := range []int{0, 1, 16379, 16384, 65530, 65536, 300_001, most} { // round the frames' and the windows' ends
				request := make([]byte, size)
				for i := range request {
					request[i] = byte(i * 7)
				}
				if answer, err := ask(t.Context(), "/test.Service/Echo", request); err != nil || !bytes.Equal(answer, request) {
					t.Errorf("%d bytes: %d bytes, %v", size, len(answer), err)
				}
			}
			for _, test := range []struct {
				method, request string
				code            rpc.Code
				want            string
			}{
				{"Says", "nein: 100 % größer", 9, "nein: 100 % größer"},
				{"Says", long, 9, long},
				{"Plain", "", rpc.Unknown, "the driver is too old"},
				{"Nothing", "", rpc.Unimplemented, "Nothing"},
				{"Large", "", rpc.ResourceExhausted, "larger than max"},
			} {
				_, err := ask(t.Context(), "/test.Service/"+test.method, []byte(test.request))
				if s := rpc.StatusOf(err); s.Code != test.code || !strings.Contains(s.Message, test.want) {
					t.Errorf("%s: %.200v", test.method, err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if answer, err := ask(ctx, "/test.Service/Left", nil); err != nil || string(answer) != "true true" {
				t.Errorf("the deadline: %q %v", answer, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := ask(ctx, "/test.Service/Hang", nil); rpc.StatusOf(err).Code != rpc.DeadlineExceeded {
				t.Errorf("one that hangs: %v", err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			if _, err := ask(ctx, "/test.Service/Hang", nil); rpc.StatusOf(err).Code != rpc.Canceled {
				t.Errorf("one that nobody waits for: %v", err)
			}
		})
	}
}

// TestTooLarge: a request that is larger than the server reads is refused, and the connection goes on.
func TestTooLarge(t *testing.T) {
	path, _, _ := ourServer(t)
	for name, ask := range map[string]asker{"ours": ours(t, path), "theirs": theirs(t, path)} {
		_, err := ask(t.Context(), "/test.Service/Echo", make([]byte, 2*most))
		if s := rpc.StatusOf(err); s.Code != rpc.ResourceExhausted {
			t.Errorf("%s: %v", name, err)
		}
		if answer, err := ask(t.Context(), "/test.Service/Echo", []byte("x")); err != nil || string(answer) != "x" {
			t.Errorf("%s afterwards: %q %v", name, answer, err)
		}
	}
}

// TestAtOnce: many calls share a connection, its windows and its end.
func TestAtOnce(t *testing.T) {
	path, _, _ := ourServer(t)
	ask := theirs(t, path)
	var wait sync.WaitGroup
	for i := range 100 {
		wait.Go(func() {
			request := bytes.Repeat([]byte{byte(i)}, i*3001)
			if answer, err := ask(t.Context(), "/test.Service/Echo", request); err != nil || !bytes.Equal(answer, request) {
				t.Errorf("call %d: %d bytes, %v", i, len(answer), err)
			}
		})
	}
	wait.Wait()
}

// TestLast: the last method is answered, and then the server ends, and takes its socket along.
func TestLast(t *testing.T) {
	path, _, ended := ourServer(t)
	if answer, err := ours(t, path)(t.Context(), "/test.Service/Empty", nil); err != nil || len(answer) > 0 {
		t.Errorf("%q %v", answer, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("its socket is left")
	}
}

// TestGone: a handler is told when nobody waits any more.
func TestGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := rpc.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	began, gone := make(chan bool, 1), make(chan error, 1)
	s := &rpc.Server{Most: most, Methods: map[string]rpc.Handler{"/a/b": func(ctx context.Context, _ []byte) ([]byte, error) {
		began <- true
		<-ctx.Done()
		gone <- ctx.Err()
		return nil, ctx.Err()
	}}}
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	for name, ask := range map[string]asker{"ours": ours(t, path), "theirs": theirs(t, path)} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = ask(ctx, "/a/b", nil) }()
		<-began
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
