package live

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

type given map[string]string

func (g given) Read(name string) ([]byte, error) {
	if v, ok := g[name]; ok {
		return []byte(v), nil
	}
	return nil, fs.ErrNotExist
}

func TestCredentialGiven(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/etc/credstore.encrypted/stored", "x")
	place(t, root, "/root/token", "x")
	// go-systemd's unit package reads no line of more than 2048 bytes, and nothing of a file that has one.
	long := "SetCredential=other:" + strings.Repeat("x", 4096) + "\n"
	place(t, root, "/etc/systemd/system/prelet.service.d/10.conf", "[Service]\n"+long+"LoadCredential=loaded:/root/token\nLoadCredentialEncrypted=gone:/root/none\nLoadCredential=relative:name\n")
	place(t, root, "/usr/lib/systemd/system/prelet.service", "[Service]\nLoadCredential=own:/root/token\n")
	for name, want := range map[string]string{
		"process": "", "stored": "", "loaded": "", "own": "",
		"gone": "loads it from /root/none", "relative": "no drop-in of prelet.service loads it", "nosuch": "in none of systemd's stores",
	} {
		err := CredentialGiven(given{"process": "x"}, root, "prelet.service", name)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestDiskOf(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/etc/kubernetes/x", "")
	for path, want := range map[string]string{"/etc/kubernetes/y": "/etc/kubernetes", "/etc/a/b/c": "/etc", "/var/lib/prelet/x": "/"} {
		d := DiskOf(root, path)
		if d.Err != nil || d.Path != filepath.Join(root, want) || d.FreeBytes == 0 || !d.Writable || d.ReadOnly {
			t.Errorf("%s: %+v", path, d)
		}
	}
	if d := DiskOf(root, "/etc/kubernetes/x/y"); d.Err == nil {
		t.Errorf("below a file: %+v", d)
	}
	if d := DiskOf("", "/proc/x"); d.Err == nil && d.FreeBytes > 0 {
		t.Errorf("/proc has room: %+v", d)
	}
}

func TestDialRuntime(t *testing.T) {
	// A path of a socket has 107 bytes at most.
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for endpoint, ok := range map[string]bool{"unix://" + sock: true, sock: true, "unix://" + sock + "x": false, "tcp://127.0.0.1:1": false} {
		if err := DialRuntime(t.Context(), endpoint); (err == nil) != ok {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Nothing that would send the token reaches the source of a node that has not joined.
func TestAtRest(t *testing.T) {
	var asked []world.Kind
	s := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
		asked = append(asked, q.Kind)
		return world.Failure(fault.Absent, "", "")
	})
	lies := func(name string) error {
		if name == "there" {
			return nil
		}
		return errors.New("no")
	}
	object, trust := world.Object.Question(world.ObjectReq{Name: "x"}), world.Trust.Question(world.TrustReq{})
	rest := AtRest(s, false, lies)
	if a := rest.Ask(t.Context(), object); a.Code() != fault.Unread || len(asked) > 0 {
		t.Errorf("%+v, asked %v", a, asked)
	}
	rest.Ask(t.Context(), trust)
	if a := rest.Ask(t.Context(), world.Credential.Question(world.CredentialReq{Name: "there"})); a.Fault != nil {
		t.Errorf("%+v", a)
	}
	rest.Ask(t.Context(), world.Credential.Question(world.CredentialReq{Name: "other"}))
	AtRest(s, true, lies).Ask(t.Context(), object)
	if len(asked) != 3 || asked[0] != world.KindTrust || asked[1] != world.KindCredential || asked[2] != world.KindObject {
		t.Errorf("asked %v", asked)
	}
}

func TestNodeText(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/a", "text")
	if NodeText(root, "/a") != "text" || NodeText(root, "/none") != "" {
		t.Error("got something else")
	}
}
