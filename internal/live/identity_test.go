package live

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/demo"
	"github.com/prelet/prelet/internal/fault"
)

// Joined: kubelet.conf is there, parses, and what it names is there, fits together and is not expired.
func TestJoined(t *testing.T) {
	s, err := demo.Start(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conf, err := s.NodeKubeconfig("n1")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := s.IssueNode("n1")
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := s.IssueNode("n1")
	if err != nil {
		t.Fatal(err)
	}
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
		{"cut off", named(current), string(cert)[:200], 0, "holds no certificate"},
		{"expired", named(current), string(cert) + string(key), 50 * 365 * 24 * time.Hour, "expired at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			if c.conf != "" {
				place(t, root, kubeletConf, c.conf)
			}
			if c.pem != "" {
				place(t, root, pem, c.pem)
				if err := os.Symlink(pem, root+current); err != nil {
					t.Fatal(err)
				}
			}
			l := New(Options{Root: root, Now: func() time.Time { return time.Now().Add(c.later) }})
			defer l.Close()
			joined, why := l.Joined()
			if joined != (c.why == "") || !strings.Contains(why, c.why) || strings.Contains(why, "PRIVATE") {
				t.Errorf("%v: %s, want %q", joined, why, c.why)
			}
			if c.pem != "" && c.why == "" && !strings.Contains(strings.Join(l.node().Identity.Files, " "), pem) {
				t.Errorf("what holds it: %q", l.node().Identity.Files)
			}
		})
	}
}

// A user who may read kubelet.conf and not its key cannot tell: "not joined" would plan a bootstrap that nobody needs.
func TestJoinedDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	root := t.TempDir()
	s, err := demo.Start(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conf, err := s.NodeKubeconfig("n1")
	if err != nil {
		t.Fatal(err)
	}
	place(t, root, kubeletConf, string(conf))
	if err := os.Chmod(root+kubeletConf, 0); err != nil {
		t.Fatal(err)
	}
	l := New(Options{Root: root})
	defer l.Close()
	if a := l.kubelet(t.Context()); a.Code() != fault.Denied {
		t.Errorf("%+v", a)
	}
}
