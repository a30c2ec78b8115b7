package probe

import (
	"os"
	"testing"

	"github.com/prelet/prelet/internal/demo"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/probe/joined"
	"github.com/prelet/prelet/internal/world"
)

// TestJoinedDenied fails for a user who may not read kubelet.conf: "not joined" would plan a bootstrap that is not
// needed.
func TestJoinedDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs a user other than root, who may read every file")
	}
	root := t.TempDir()
	s := demo.Start(demo.Options{})
	defer s.Close()
	placeMode(t, root, joined.Conf, string(s.NodeKubeconfig("n1")), 0)
	l := newLive(t, Options{Root: root})
	if a := l.answerKubelet(t.Context(), world.KubeletReq{}); a.Code() != fault.Denied {
		t.Errorf("got %+v, want code %s", a, fault.Denied)
	}
}
