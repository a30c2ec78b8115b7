package probe

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestJoinedDenied fails for a user who may not read kubelet.conf: "not joined" would plan a bootstrap that is not
// needed.
func TestJoinedDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs a user other than root, who may read every file")
	}
	root := t.TempDir()
	s := demo.Start(demo.ServerConfig{})
	defer s.Close()
	placeMode(t, root, joined.Conf, string(s.NodeKubeconfig("n1")), 0)
	l := newLive(t, Sources{Root: root})
	if a := l.answerKubelet(t.Context(), tape.KubeletReq{}); a.Code() != fault.Denied {
		t.Errorf("got %+v, want code %s", a, fault.Denied)
	}
}

// TestAnswerDryRun checks that no binary answers for another version, and only on a node that is asked.
func TestAnswerDryRun(t *testing.T) {
	const version = "v1.36.3"
	root := t.TempDir()
	placeMode(t, root, "/usr/bin/kubelet", "#!/bin/sh\n", 0o755)
	state := filepath.Join(root, "var/lib/prelet")
	kept, _ := kubeletbin.Find(root, "", nil).Keep(version, nil)
	text, err := kept.Marshal()
	must(t, err)
	placeMode(t, root, "/var/lib/prelet/kubelet.json", string(text), 0o600)
	store, err := generation.OpenReadOnly(generation.StoreConfig{Root: root, Dir: state})
	must(t, err)

	for name, c := range map[string]struct {
		request         tape.DryRunReq
		starts          int
		want            fault.Code // of the answer
		withoutQuestion bool
	}{
		"this version":                   {request: tape.DryRunReq{Kubelet: version}, starts: 1},
		"another version":                {request: tape.DryRunReq{Kubelet: "v1.37.1"}, want: fault.Unread},
		"a node that is not to be asked": {request: tape.DryRunReq{Kubelet: version}, want: fault.Unread, withoutQuestion: true},
	} {
		starts := 0
		o := Sources{Root: root, Store: store, StateDir: state}
		if !c.withoutQuestion {
			o.DryRun = func(context.Context, tape.DryRunReq) tape.Answer {
				starts++
				return tape.DryRun.Answer(tape.DryRunAns{Accepted: true})
			}
		}
		l := newLive(t, o)
		l.answerKubelet(t.Context(), tape.KubeletReq{})
		a := l.answerDryRun(t.Context(), c.request)
		if a.Code() != c.want || starts != c.starts {
			t.Errorf("%s: got code %q and %d starts, want %q and %d", name, a.Code(), starts, c.want, c.starts)
		}
	}
}
