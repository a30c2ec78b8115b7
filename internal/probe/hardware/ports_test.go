package hardware

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/world"
)

func TestReadPorts(t *testing.T) {
	const (
		heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		api     = "   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1\n"
		health  = "   1: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1\n"
		client  = "   2: 0100007F:280A 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 43 1\n"
		other   = "   3: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 44 1\n"
	)
	for _, c := range []struct {
		name    string
		tcp     string
		tcp6    string
		command string // of process 17, which has all sockets
		want    []world.PortAns
	}{
		{"nothing listens", heading, heading, "haproxy", nil},
		{"another process", heading + health, heading + api, "haproxy", []world.PortAns{
			{Port: 10248, PID: 17, Command: "haproxy"},
			{Port: 10250, PID: 17, Command: "haproxy"},
		}},
		{"the kubelet", heading + api + health, heading, "kubelet", nil},
		{"a connection and another port", heading + client + other, heading, "haproxy", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			proc := t.TempDir()
			for path, text := range map[string]string{
				"net/tcp": c.tcp, "net/tcp6": c.tcp6, "17/comm": c.command + "\n", "17/fd/0": "",
			} {
				file := filepath.Join(proc, path)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for fd, inode := range map[string]string{"3": "41", "4": "42", "5": "43", "6": "44"} {
				if err := os.Symlink("socket:["+inode+"]", filepath.Join(proc, "17/fd", fd)); err != nil {
					t.Fatal(err)
				}
			}

			if diff := cmp.Diff(c.want, readPorts(proc)); diff != "" {
				t.Errorf("readPorts: -want +got:\n%s", diff)
			}
		})
	}
}
