package cri

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtime serves two calls of the CRI; others, and RuntimeConfig without a config, are not implemented.
type runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	name   string
	config *runtimeapi.RuntimeConfigResponse
}

func (r *runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: r.name, RuntimeVersion: "0.1.0"}, nil
}

func (r *runtime) RuntimeConfig(
	ctx context.Context, request *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	if r.config == nil {
		return r.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, request)
	}

	return r.config, nil
}

func listen(t *testing.T) (net.Listener, string) {
	t.Helper()

	socket := filepath.Join(t.TempDir(), "s")

	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { listener.Close() })

	return listener, socket
}

func TestAsk(t *testing.T) {
	silenceLibrary() // before the first server of this test logs, too

	withDriver := func(driver runtimeapi.CgroupDriver) *runtimeapi.RuntimeConfigResponse {
		return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}
	}

	cgroupfs := withDriver(runtimeapi.CgroupDriver_CGROUPFS)
	for _, test := range []struct {
		name, runtime string
		config        *runtimeapi.RuntimeConfigResponse
		want          Runtime
		wantErr       string
	}{
		{"cgroupfs", "containerd", cgroupfs, Runtime{"containerd", "0.1.0", "cgroupfs", false}, ""},
		{"systemd", "containerd", withDriver(runtimeapi.CgroupDriver_SYSTEMD), Runtime{"containerd", "0.1.0", "systemd", false}, ""},
		{"a response without Linux", "containerd", &runtimeapi.RuntimeConfigResponse{}, Runtime{"containerd", "0.1.0", "", false}, ""},
		{"a driver that is not known", "containerd", withDriver(2), Runtime{"containerd", "0.1.0", "", false}, ""},
		{"containerd 1.6, which has no RuntimeConfig", "containerd", nil, Runtime{"containerd", "0.1.0", "", true}, "Unimplemented"},
		{"a name with an escape sequence", "\x1b[1mRuntime", cgroupfs, Runtime{"", "0.1.0", "cgroupfs", false}, ""},
		{"a long name", strings.Repeat("x", 65), cgroupfs, Runtime{"", "0.1.0", "cgroupfs", false}, ""},
		{"a response above the limit", strings.Repeat("x", maxMessage+1), cgroupfs, Runtime{"", "", "cgroupfs", false}, "larger than max"},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, socket := listen(t)

			server := grpc.NewServer()
			runtimeapi.RegisterRuntimeServiceServer(server, &runtime{name: test.runtime, config: test.config})

			go func() { _ = server.Serve(listener) }()
			defer server.Stop()

			got, err := Ask(t.Context(), socket)
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}

			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got error %v, want %q in it", err, test.wantErr)
			}
		})
	}
}

// TestAskHostile checks that whatever a socket sends ends in an error, at the deadline at the latest.
func TestAskHostile(t *testing.T) {
	const (
		settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		ping     = "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"
		headers  = "\x00\x40\x00\x01\x00\x00\x00\x00\x01" // 16 KiB that do not end the headers
		more     = "\x00\x40\x00\x09\x00\x00\x00\x00\x01"
		unasked  = "\x00\x40\x00\x00\x00\x00\x00\x00\x05" // data on a stream that was not opened
	)

	block := strings.Repeat("\x00", 16<<10)
	pings, manySettings := strings.Repeat(ping, 1000), strings.Repeat(settings, 1000)

	for _, test := range table.YAML[[]struct {
		Name   string
		Sends  string
		Floods string // again and again
		Closes bool
	}](t, `
- {name: closes at once, closes: true}
- {name: sends nothing}
- {name: settings and nothing else, sends: '{settings}'}
- {name: settings and then closes, sends: '{settings}', closes: true}
- {name: HTTP/1.1, sends: "HTTP/1.1 400 Bad Request\r\n\r\n"}
- {name: pings without end, sends: '{settings}', floods: '{pings}'}
- {name: settings without end, sends: '{settings}', floods: '{manySettings}'}
- {name: headers without end, sends: '{settings}{headers}{block}', floods: '{more}{block}'}
- {name: data without end, sends: '{settings}', floods: '{unasked}{block}'}
- {name: zeros without end, floods: '{block}'}
`, "settings", settings, "headers", headers, "block", block, "more", more, "unasked", unasked, "pings", pings,
		"manySettings", manySettings) {
		t.Run(test.Name, func(t *testing.T) {
			t.Parallel()

			listener, socket := listen(t)

			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}

					go attack(conn, test.Sends, test.Floods, test.Closes)
				}
			}()

			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()

			got, err := Ask(ctx, socket) // which ends, whatever the runtime sends
			if err == nil || got != (Runtime{}) {
				t.Errorf("got %+v, %v, want an error", got, err)
			}
		})
	}
}

func attack(conn net.Conn, sends, floods string, closes bool) {
	defer conn.Close()

	_, err := conn.Write([]byte(sends))
	for err == nil && floods != "" {
		_, err = conn.Write([]byte(floods))
	}

	// Read until the client hangs up: a server that closes with unread data would end the connection for it.
	for buffer := make([]byte, 4096); err == nil && !closes; {
		_, err = conn.Read(buffer)
	}
}

// TestAskWithoutSocket: nothing is waited for. The clock is synctest's.
func TestAskWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got, err := Ask(t.Context(), filepath.Join(t.TempDir(), "s"))
		if waited := time.Since(began); err == nil || got != (Runtime{}) || waited > 0 {
			t.Errorf("got %+v, %v after %s; want an error at once", got, err, waited)
		}
	})
}

// TestAskUsesTwoCalls checks what a runtime sees: one connection, two calls, and no other.
func TestAskUsesTwoCalls(t *testing.T) {
	listener, socket := listen(t)

	var methods []string

	server := grpc.NewServer(grpc.UnaryInterceptor(
		func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			methods = append(methods, info.FullMethod)

			return handler(ctx, request)
		}))
	runtimeapi.RegisterRuntimeServiceServer(
		server,
		&runtime{name: "containerd", config: &runtimeapi.RuntimeConfigResponse{}},
	)

	done := make(chan struct{})

	go func() {
		defer close(done)

		_ = server.Serve(listener) // Stop ends it
	}()

	if _, err := Ask(t.Context(), socket); err != nil {
		t.Fatal(err)
	}

	server.Stop()
	<-done

	want := []string{"/runtime.v1.RuntimeService/Version", "/runtime.v1.RuntimeService/RuntimeConfig"}
	if !slices.Equal(methods, want) {
		t.Errorf("got calls %q, want %q", methods, want)
	}
}
