package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/report"
)

// A boot that writes, judged by prelet-verify: the times of its stages, requests, fsyncs and jobs are in its report,
// and the chain begins with the site and ends with the verdict.
func TestAnalyze(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.want("blame before a run", m.as("", "analyze", "blame"),
		ended{noRun, "", "prelet has not run in this boot"})
	run, verify := m.boot()
	m.want("run", run, ended{0, "Generation 1 is in place", ""})
	m.want("verify", verify, ended{0, "the kubelet is healthy on it", ""})

	blame := m.as("", "analyze", "blame")
	m.want("blame", blame, ended{0, "stage     fetch-ca.cluster", ""})
	for _, want := range []string{
		"step      read the site", "request   the cluster's CA", "request   ConfigMap kube-system/kubelet-config",
		"step      commit", "step      verify",
	} {
		if !strings.Contains(blame.out, want) {
			t.Errorf("analyze blame: got\n%s\nwant a line with %q", blame.out, want)
		}
	}

	var doc struct {
		Chain []report.Link
		Spans []report.Span
	}
	chain := m.as("", "analyze", "chain", "-o", "json")
	if err := json.Unmarshal([]byte(chain.out), &doc); err != nil || len(doc.Chain) < 4 {
		t.Fatalf("analyze chain -o json: got %s, %v; want a chain", chain.out, err)
	}
	isOwned := func(l report.Link) bool {
		return len(l.Parts) > 0 && l.Parts[0].Stage == l.Name
	}
	if !slices.ContainsFunc(doc.Chain, isOwned) {
		t.Errorf("chain: got %s, want a gather stage with its part", chain.out)
	}
	first, last := doc.Chain[0], doc.Chain[len(doc.Chain)-1]
	if first.Name != "lock" && first.Name != "read the site" || last.Name != "verify" {
		t.Errorf("chain: got %s first and %s last, want the site and the verdict", first.Name, last.Name)
	}
	m.want("chain", m.as("", "analyze", "chain"), ended{0, "The end waited for these", ""})

	// The second boot has times of its own, and the same plan and recording whatever these are.
	m.reboot()
	m.want("blame after a reboot", m.as("", "analyze", "blame", "-o", "json"), ended{noRun, `"problem":"prelet has`, ""})
	m.boot()
	again := m.as("", "analyze", "blame")
	if again.exit != 0 || strings.Contains(again.out, "step      commit") {
		t.Errorf("blame of a boot that writes nothing: got %d\n%s\nwant no commit", again.exit, again.out)
	}
	if bytes.Contains([]byte(m.read("/var/lib/prelet/generations/1")), []byte(`"spans"`)) {
		t.Error("the generation has times, want none: a plan and a recording have no clock")
	}
}
