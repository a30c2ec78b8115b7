package boot

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/demo"
)

// A bundle of a booted node has the journal of prelet and of the kubelet, and in no file the token, although a unit
// logs it.
func TestBundle(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/systemd/system/kubelet.service.d/90-canary.conf",
		"[Service]\nExecStartPre=/bin/echo the token is "+demo.Token+"\n")
	m.Boot()
	m.verdict("good")

	m.Do("prelet", "bundle", "/root/bundle.tar.gz")
	m.Do("tar", "--extract", "--file=/root/bundle.tar.gz", "--directory=/root")
	journal := m.read("/root/prelet-bundle/journal.txt")
	for _, want := range []string{"the token is ", "systemd[1]: Finished prelet.service"} {
		if !strings.Contains(journal, want) {
			t.Errorf("journal.txt: want text with %q, got:\n%s", want, journal)
		}
	}

	if logged := m.Do("journalctl", "--boot", "--no-pager", "--unit=kubelet"); !strings.Contains(logged, demo.Token) {
		t.Errorf("the kubelet's journal: want text with the token, got:\n%s", logged)
	}
	if r := m.Try("grep", "--recursive", "--files-with-matches", demo.TokenSecret, "/root/prelet-bundle"); r.Exit != 1 {
		t.Errorf("files of the bundle with the token: got %+v, want exit 1 and none", r)
	}
}
