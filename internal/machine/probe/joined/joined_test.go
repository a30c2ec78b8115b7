package joined

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/demo"
)

func place(t *testing.T, root, path, text string) {
	t.Helper()
	file := filepath.Join(root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Joined: kubelet.conf is there, parses, and what it names is there, fits together and is not expired.
func TestJoined(t *testing.T) {
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	conf := s.NodeKubeconfig("n1")
	cert, key := s.IssueNode("n1")
	_, other := s.IssueNode("n1")
	named := func(file string) string {
		var out []string
		for line := range strings.Lines(string(conf)) {
			for _, what := range []string{"client-certificate", "client-key"} {
				if strings.HasPrefix(strings.TrimSpace(line), what+"-data:") {
					line = "    " + what + ": " + file + "\n"
				}
			}
			out = append(out, line)
		}
		return strings.Join(out, "")
	}
	const current, pem = "/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-client-2026.pem"
	for _, c := range []struct {
		name, conf, pem string
		later           time.Duration
		why             string // "" is joined
	}{
		{"with what it holds", string(conf), "", 0, ""},
		{"with a file behind a link", named(current), string(cert) + string(key), 0, ""},
		{"none", "", "", 0, "there is no"},
		{"not a kubeconfig", "kind: Pod\n", "", 0, "cannot be parsed"},
		{"begun to join, and not certified yet", named(current), "", 0, "cannot be read"},
		{"a certificate alone", named(current), string(cert), 0, "do not belong together"},
		{"the key of another", named(current), string(cert) + string(other), 0, "do not belong together"},
		{"cut off", named(current), string(cert)[:200], 0, "certificate of /etc/kubernetes/kubelet.conf cannot " +
			"be parsed"},
		{"expired", named(current), string(cert) + string(key), 50 * 365 * 24 * time.Hour, "expired at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.conf != "" {
				place(t, root, Conf, c.conf)
			}
			if c.pem != "" {
				place(t, root, pem, c.pem)
				if err := os.Symlink(pem, root+current); err != nil {
					t.Fatal(err)
				}
			}
			n := Reader{Root: nodefile.Root(root), Now: func() time.Time { return time.Now().Add(c.later) }}
			joined, why := n.Identity().Joined()
			if joined != (c.why == "") || !strings.Contains(why, c.why) || strings.Contains(why, "PRIVATE") {
				t.Errorf("%v: %s, want %q", joined, why, c.why)
			}
			if expired := n.Identity().Expired; (expired != "") != (c.name == "expired") {
				t.Errorf("expired: got %q", expired)
			}
			if c.pem != "" && c.why == "" && !slices.Contains(n.Files(n.Identity()), pem) {
				t.Errorf("what holds it: got %q, want %s among them", n.Files(n.Identity()), pem)
			}
		})
	}
}

// TestRemedyOfDamagedWorks removes what is damaged by the command, and, where a run sets files aside, by these: nothing
// damaged is left. In place of a file is a folder, a pipe, or a link.
func TestRemedyOfDamagedWorks(t *testing.T) {
	places := map[string]func(path string) error{
		"file":         func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"empty folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"folder": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(path+"/x", nil, 0o600))
		},
		"pipe":           func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link in a loop": func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"link to a folder": func(path string) error {
			return errors.Join(os.Mkdir(path+".d", 0o700), os.Symlink(filepath.Base(path)+".d", path))
		},
		"link to an empty file": func(path string) error {
			return errors.Join(os.WriteFile(path+".x", nil, 0o600), os.Symlink(filepath.Base(path)+".x", path))
		},
	}
	for name, create := range places {
		for _, files := range [][]string{
			{Client, Client + "-current.pem"},
			{OwnPair, OwnPair + ".crt", OwnPair + ".key"},
			{OwnPair, OwnPair + ".key", OwnPair + ".crt"},
		} {
			for _, byHand := range []bool{true, false} {
				root := t.TempDir()
				pki := filepath.Join(root, kubeletPKI)
				place(t, root, kubeletPKI+"/"+files[len(files)-1], "x")
				damaged := filepath.Join(pki, files[1])
				if err := errors.Join(os.RemoveAll(damaged), create(damaged)); err != nil {
					t.Fatal(err)
				}
				find := func() *Damaged {
					return Reader{Root: nodefile.Root(root), Now: time.Now}.FindDamaged(Identity{}, files[0])
				}
				d := find()
				if d == nil {
					t.Errorf("%s in place of %s: got no damage, want one", name, files[1])
					continue
				}
				command := d.Command()
				if !byHand && d.Files != nil {
					command = "rm -d " + strings.Join(d.Files, " ")
				}
				command = strings.ReplaceAll(command, "/var/lib", root+"/var/lib")
				out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
				if err != nil || find() != nil {
					const format = "%s in place of %s: %s: got %v, %s, and then %v; want nothing damaged"
					t.Errorf(format, name, files[1], command, err, out, find())
				}
			}
		}
	}
}
