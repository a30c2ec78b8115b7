package activation

import (
	"errors"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet/failure"
)

// The item of a cause is the first one in the plan, otherwise a label that the cluster's message is about.
func TestLocated(t *testing.T) {
	p := Spec{
		NodeState: NodeState{Labels: map[string]string{"example.com/a": "", "example.com/ab": "", "z": ""}},
		KubeletState: KubeletState{Sources: map[string]string{
			"label/example.com/a":  "site.hcl:1:1",
			"label/example.com/ab": "site.hcl:2:2",
			"label/z":              "site.hcl:4:4",
			"flag/x":               "site.hcl:3:3, write.kubelet",
		}},
	}
	for _, c := range []struct {
		found    failure.Cause
		item, at string
	}{
		{failure.Cause{Items: []string{"config/x", "flag/x"}}, "flag/x", "site.hcl:3:3, write.kubelet"},
		{failure.Cause{Items: []string{"config/x"}, Words: "example.com/ab"}, "config/x", ""},
		{
			failure.Cause{Words: `nodes "n" is forbidden: policy 'lazy' denied request: example.com/ab is not allowed`},
			"label/example.com/ab", "site.hcl:2:2",
		},
		{failure.Cause{Words: "no more"}, "", ""},
	} {
		if got := p.withItem(c.found); got.Item != c.item || got.At != c.at {
			t.Errorf("%+v: %+v, want %s at %s", c.found, got, c.item, c.at)
		}
	}
}

// A kubelet that has ended and whose journal has no error, since its unit writes to a file, is asked for its words. One
// that runs is not: it would say that its own address is in use.
func TestAskedForItsWords(t *testing.T) {
	const (
		line  = `E0101 00:00:00.000000 1 x.go:1] "command failed" err="no disk"`
		asked = "its journal has no error; its binary, asked again, says: no pods"
	)
	for _, c := range []struct {
		log          []string
		failed       error
		words, check string
		pid          uint32
		cause        string
	}{
		{[]string{line}, nil, "no pods", unitCheck, 0, "its last error is: no disk"},
		{nil, nil, "no pods", unitCheck, 0, asked},
		{nil, errors.New("no journal"), "no pods", unitCheck, 0, asked},
		{nil, nil, "", unitCheck, 0, ""},
		{nil, nil, "no pods", "files", 7, ""},
		{nil, nil, "no pods", "healthz", 7, ""},
		{nil, nil, "no pods", unitCheck, 7, ""}, // it is starting
	} {
		n := &node{clk: &sim{}, systemd: &fakeSystemd{}, log: c.log, logErr: c.failed}
		asked := n.asNode()
		asked.words = c.words
		m := &StateMachine{Node: asked}
		w := watcher{m: m, process: process{pid: c.pid}}
		w.addBad(c.check, "so")
		got := w.explainFailure(t.Context(), time.Second)
		if got == nil && c.cause != "" || got != nil && got.Sentence != c.cause {
			t.Errorf("log %q, words %q, check %s of process %d: got %+v, want %q", c.log, c.words, c.check, c.pid, got, c.cause)
		}
	}
}
