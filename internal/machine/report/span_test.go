package report

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// at returns a span that begins and ends at milliseconds of one second.
func at(kind, name string, begin, end int) Span {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(begin) * time.Millisecond)

	return Span{Kind: kind, Name: name, Start: start, Micros: int64(end-begin) * 1000}
}

// of returns a span as a part of a stage.
func of(stage string, s Span) Span {
	s.Stage = stage

	return s
}

// bootSpans are those of a first boot: two gather stages in parallel, a decide stage, a commit with its fsyncs, a restart.
func bootSpans() []Span {
	return []Span{
		at(KindStep, "read the site", 0, 10),
		of("fetch-ca.cluster", at(KindRequest, "the cluster's CA", 11, 100)),
		of("fetch-config.other", at(KindRequest, "ConfigMap kube-system/other", 102, 299)),
		at(KindStage, "fetch-ca.cluster", 10, 101),
		of("detect-hw.node", at(KindHardware, "the hardware", 12, 150)),
		at(KindStage, "detect-hw.node", 10, 151),
		of("fetch-config.kubelet", at(KindRequest, "ConfigMap kube-system/kubelet-config", 102, 300)),
		at(KindStage, "fetch-config.kubelet", 101, 301),
		at(KindStage, "label.node", 301, 303),
		at(KindSync, "/etc/default", 330, 340),
		at(KindSync, "/var/lib/prelet", 341, 342),
		at(KindStep, "commit", 320, 350),
		at(KindSystemd, "restart kubelet.service", 351, 850),
		at(KindStep, "restart", 350, 851),
		at(KindRequest, "the Node of this name in the cluster", 860, 1700),
		at(KindStep, "verify", 851, 1800),
	}
}

func TestCriticalChain(t *testing.T) {
	s := Status{Spans: bootSpans()}
	var got []string
	for _, l := range s.CriticalChain() {
		line := fmt.Sprintf("%s %s+%s", l.Name, time.Duration(l.GapMicros)*time.Microsecond, l.Took())
		for _, p := range l.Parts {
			line += " [" + p.Name + "]"
		}
		got = append(got, line)
	}
	want := `read the site 0s+10ms
fetch-ca.cluster 0s+91ms [the cluster's CA]
fetch-config.kubelet 0s+200ms [ConfigMap kube-system/kubelet-config]
label.node 0s+2ms
commit 17ms+30ms [/etc/default] [/var/lib/prelet]
restart 0s+501ms [restart kubelet.service]
verify 0s+949ms [the Node of this name in the cluster]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if b := s.Blame(); b[0].Name != "verify" || b[len(b)-1].Name != "/var/lib/prelet" {
		t.Errorf("got %v first and %v last, want verify first and the shortest fsync last", b[0], b[len(b)-1])
	}
}

// TestCriticalChainProperties: whatever the spans are, the links of the chain follow each other without overlap, the
// last one ends last, and their times with the gaps add up to the time from the first to the last.
func TestCriticalChainProperties(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		var s Status
		for n := range r.IntN(12) {
			begin := r.IntN(50)
			kind := []string{KindStage, KindStep, KindSync}[r.IntN(3)]
			s.Spans = append(s.Spans, at(kind, fmt.Sprint("s", n), begin, begin+r.IntN(20)))
		}

		chain := s.CriticalChain()
		sum := time.Duration(0)
		for n, l := range chain {
			sum += time.Duration(l.GapMicros)*time.Microsecond + l.Took()
			if n > 0 && l.Start.Before(chain[n-1].End()) {
				t.Fatalf("seed %d: got %v before the end of %v, want it after", seed, l, chain[n-1])
			}
		}
		for _, span := range s.Spans {
			if span.Kind == KindSync {
				continue
			}
			if len(chain) == 0 || span.End().After(chain[len(chain)-1].End()) {
				t.Fatalf("seed %d: got the chain %v, want %v as its end", seed, chain, span)
			}
		}
		if len(chain) > 0 && sum != chain[len(chain)-1].End().Sub(chain[0].Start) {
			t.Fatalf("seed %d: got links and gaps of %s in %v, want the whole time", seed, sum, chain)
		}
	}
}

// TestSpans: events give spans of stages and steps, a second end of a step changes nothing, what is short is left out,
// and the number is bounded.
func TestSpans(t *testing.T) {
	b := newBench(t)
	r := b.reporter(t, nil)
	step := func(e Event) { r.Event(e); b.now = b.now.Add(10 * time.Millisecond) }
	step(Event{Stage: "fetch-ca.cluster", State: Started})
	step(Event{Stage: "fetch-ca.cluster", State: OK})
	step(Event{Stage: "label.node", State: OK, Took: 3 * time.Millisecond})
	step(Event{Stage: "taint.node", State: Skipped})
	step(Event{Stage: "gate", State: OK})
	step(Event{Stage: "verify", State: Started})
	step(Event{Stage: "verify", State: OK})
	step(Event{Stage: "verify", State: OK})
	r.Span(KindSync, "/short", b.now, time.Microsecond)
	r.Span(KindSync, "/"+canary, b.now, time.Second)

	got := ""
	for _, s := range r.Status().Spans {
		got += fmt.Sprintf("%s %s %s\n", s.Kind, s.Name, s.Took())
	}
	want := "stage fetch-ca.cluster 10ms\nstage label.node 3ms\nstep verify 10ms\nfsync /(sensitive) 1s\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	for n := range 4 * maxSpans {
		r.Span(KindSync, fmt.Sprint(n), b.now, time.Second)
	}
	if n := len(r.Status().Spans); n != maxSpans {
		t.Errorf("got %d spans, want at most %d", n, maxSpans)
	}

	b.now = b.now.Add(time.Second)
	step(Event{Stage: "last", State: Started})
	step(Event{Stage: "last", State: OK})
	chain := r.Status().CriticalChain()
	if last := chain[len(chain)-1]; last.Name != "last" {
		t.Errorf("got %s as the end of the chain, want the step after the limit of parts", last.Name)
	}
}

// TestSpansOfSetClock: the clock is set between two steps. The distance of the steps is that of the clock that is never
// set, and all starts are those of the clock at the end.
func TestSpansOfSetClock(t *testing.T) {
	final := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, early := range map[string]time.Time{
		"forward": time.Unix(0, 0),
		"back":    final.Add(time.Hour),
	} {
		var s Status
		s.addSpan(Span{Kind: KindStep, Name: "read the site", Boot: 5_000_000, Micros: 1_000_000}, early)
		s.addSpan(Span{Kind: KindStage, Name: "fetch-ca.cluster", Boot: 6_000_000, Micros: 3_000_000}, final)

		got := ""
		for _, l := range s.CriticalChain() {
			got += fmt.Sprintf("%s %s+%s; ", l.Name, l.Start.Format(time.DateTime), l.Took())
		}
		want := "read the site 2026-03-01 12:00:05+1s; fetch-ca.cluster 2026-03-01 12:00:06+3s; "
		if first, last := s.Extent(); got != want || last.Sub(first) != 4*time.Second {
			t.Errorf("set %s: got %s from %s to %s, want %s", name, got, first, last, want)
		}
	}
}

// TestCriticalChainOfForeignStatus: spans without a start or with a negative duration end the chain, too.
func TestCriticalChainOfForeignStatus(t *testing.T) {
	for name, spans := range map[string][]Span{
		"without a start":   {{Kind: KindStep, Name: "x"}},
		"without all":       {{Kind: KindStep}, {Kind: KindStep}},
		"negative":          {at(KindStep, "x", 10, 5), at(KindStep, "y", 7, 6)},
		"one has no start":  {{Kind: KindStep, Name: "x"}, at(KindStep, "y", 1, 2)},
		"at the same start": {at(KindStep, "x", 1, 2), at(KindStep, "y", 1, 1)},
	} {
		chain := Status{Spans: spans}.CriticalChain()
		if len(chain) == 0 || len(chain) > len(spans) {
			t.Errorf("%s: got %d links of %d spans, want at least one and not more than spans", name, len(chain), len(spans))
		}
	}
}
