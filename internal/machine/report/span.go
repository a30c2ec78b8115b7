package report

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kinds of spans.
const (
	KindStage    = "stage"    // of the site
	KindStep     = "step"     // of the run: lock, read the site, commit, restart, verify, …
	KindRequest  = "request"  // to the cluster, with its retries
	KindDetector = "detector" // one vendor detector
	KindHardware = "hardware" // the detection of the hardware
	KindKubelet  = "kubelet"  // questions about the installed kubelet, whose binary may be started
	KindRead     = "read"     // of a file or a unit of the node, with the wait for it
	KindSync     = "fsync"    // of a file or a folder
	KindSystemd  = "systemd"  // a job that systemd does
)

// Span is one part of a run that took time. The parts of a stage or a step lie within it; stages may run in parallel.
type Span struct {
	Kind  string    `json:"kind"`
	Name  string    `json:"name"`
	Stage string    `json:"stage,omitempty"` // that it is a part of, where that is known
	Start time.Time `json:"start"`           // UTC, on the clock at the end of the run
	// Boot is the start in microseconds since boot, which no change of the clock moves.
	Boot   int64 `json:"boot_us,omitempty"`
	Micros int64 `json:"us"`
}

func (s Span) Took() time.Duration { return time.Duration(s.Micros) * time.Microsecond }

// End returns when a span ended.
func (s Span) End() time.Time { return s.Start.Add(s.Took()) }

const (
	maxSpans = 500                  // of one boot; later parts are left out,
	maxLinks = 2 * maxSpans         // and stages and steps from here on
	minSpan  = time.Millisecond / 2 // of parts that are not a stage, a step, a request or a detector
)

// addSpan adds a span, unless it is one of many short ones. A step that reports its end twice has ended at the first.
// booted is the time of the boot on the clock as it is now: the starts of all spans follow it.
func (s *Status) addSpan(span Span, booted time.Time) {
	isListed := slices.Contains([]string{KindStage, KindStep, KindRequest, KindDetector}, span.Kind)
	isKnown := slices.ContainsFunc(s.Spans, func(known Span) bool {
		return known.Kind == span.Kind && known.Name == span.Name && known.Boot == span.Boot
	})
	limit := maxSpans
	if span.isLink() {
		limit = maxLinks
	}
	if isKnown || !isListed && span.Took() < minSpan || len(s.Spans) >= limit {
		return
	}

	s.Spans = append(s.Spans, span)
	for n, known := range s.Spans {
		s.Spans[n].Start = booted.Add(time.Duration(known.Boot) * time.Microsecond).UTC()
	}
}

// isLink reports whether a span can be a link of the critical chain.
func (s Span) isLink() bool { return s.Kind == KindStage || s.Kind == KindStep }

// stageKind returns the kind of what an event reports: the address of a stage is TYPE.NAME.
func stageKind(address string) string {
	if strings.Contains(address, ".") {
		return KindStage
	}

	return KindStep
}

// Blame returns the spans of a run, the longest first.
func (s Status) Blame() []Span {
	return slices.SortedStableFunc(slices.Values(s.Spans), func(a, b Span) int {
		return cmp.Compare(b.Micros, a.Micros)
	})
}

// Link is one stage or step of the critical chain.
type Link struct {
	Span
	GapMicros int64  `json:"gap_us"` // between the end of the link before and its start
	Parts     []Span `json:"parts"`  // what took most of its time, the longest first
}

// Extent returns when the first span began and the last one ended. Both are zero without spans.
func (s Status) Extent() (first, last time.Time) {
	for n, span := range s.Spans {
		if n == 0 || span.Start.Before(first) {
			first = span.Start
		}
		if span.End().After(last) {
			last = span.End()
		}
	}

	return first, last
}

// CriticalChain returns the stages and steps that the end of a run waited for: the last span to end, before it the last
// span to end before that began, and so on. A shorter run needs a shorter link. A span without a duration that begins
// with the next link is not before it.
func (s Status) CriticalChain() (chain []Link) {
	links := slices.DeleteFunc(slices.Clone(s.Spans), func(span Span) bool {
		return !span.isLink()
	})
	next, ok := lastEnded(links)
	for ok {
		chain = append(chain, Link{Span: next, Parts: s.partsOf(next)})
		links = slices.DeleteFunc(links, func(span Span) bool {
			return span.End().After(next.Start) || !span.Start.Before(next.Start)
		})
		next, ok = lastEnded(links)
	}
	slices.Reverse(chain)
	for n := 1; n < len(chain); n++ {
		chain[n].GapMicros = max(0, chain[n].Start.Sub(chain[n-1].End()).Microseconds())
	}

	return chain
}

// lastEnded returns the span that ended last, and of several the longest.
func lastEnded(spans []Span) (found Span, ok bool) {
	for _, s := range spans {
		byEnd := s.End().Compare(found.End())
		if !ok || byEnd > 0 || byEnd == 0 && s.Micros > found.Micros {
			found = s
			ok = true
		}
	}

	return found, ok
}

const (
	maxParts = 3
	minPart  = time.Millisecond
)

// partsOf returns the longest parts of a stage or step.
func (s Status) partsOf(link Span) []Span {
	all := s.Blame()
	isGatherer := slices.ContainsFunc(all, func(p Span) bool { return p.Stage == link.Name })
	parts := []Span{}
	for _, p := range all {
		isInside := !p.Start.Before(link.Start) && !p.End().After(link.End())
		if isInside && isPartOf(link, p, isGatherer) && p.Took() >= minPart && len(parts) < maxParts {
			parts = append(parts, p)
		}
	}

	return parts
}

// isPartOf reports whether a stage or a step can have a part that lies within it. Stages that gather run in parallel,
// and only a part that names its stage is one of theirs: isGatherer is set for a stage that some part names. The others
// and the steps run one after the other.
func isPartOf(link, part Span, isGatherer bool) bool {
	switch {
	case part.isLink():
		return false
	case part.Stage != "" || isGatherer:
		return part.Stage == link.Name
	case link.Kind == KindStage:
		return part.Kind == KindRead
	}

	return true
}
