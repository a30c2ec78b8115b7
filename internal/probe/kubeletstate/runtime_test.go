package kubeletstate

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestDialRuntime(t *testing.T) {
	dir, err := os.MkdirTemp("", "") // the path of a socket has at most 107 bytes, so t.TempDir is too long
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })

	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer l.Close()

	for endpoint, ok := range map[string]bool{
		"unix://" + socket:       true,
		socket:                   true,
		"unix://" + socket + "x": false,
		"tcp://127.0.0.1:1":      false,
		"tcp://" + socket:        false,
	} {
		if err := DialRuntime(t.Context(), endpoint); (err == nil) != ok {
			t.Errorf("%s: got %v, want success: %t", endpoint, err, ok)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
