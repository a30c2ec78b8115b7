package activation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/kubelet/failure"
)

// Cause is why the kubelet fails, as read from its log.
type Cause struct {
	ID       string `json:"id,omitempty"`    // of the kind of failure; "" when prelet does not recognise it
	Sentence string `json:"sentence"`        // the explanation of the ID, or the kubelet's last error
	Item     string `json:"item,omitempty"`  // the item of the plan, as explain names it
	At       string `json:"at,omitempty"`    // its place in the site: file:line:column and the stage
	Words    string `json:"words,omitempty"` // the line of the kubelet's log

	final bool
}

// String returns the cause in one sentence.
func (c *Cause) String() string {
	if c.At == "" {
		return c.Sentence
	}

	return fmt.Sprintf("%s (%s, %s)", c.Sentence, c.Item, c.At)
}

// resultWatchdog is the Result of a service that systemd killed because its watchdog heard nothing. The log of such a
// kubelet ends with the stacks of its goroutines, as of each program in Go that gets SIGABRT.
const resultWatchdog = "watchdog"

// newWatchdogCause returns the cause of a kubelet that systemd's watchdog killed.
func newWatchdogCause(unit string, timeout time.Duration) *Cause {
	return &Cause{
		ID: resultWatchdog,
		Sentence: fmt.Sprintf("systemd's watchdog killed it, because it did not report for WatchdogSec=%s: a kubelet "+
			"reports while it is healthy, from 1.32 on, as the main process of %s; write a longer WatchdogSec=, or 0 "+
			"to turn the watchdog off", timeout, unit),
	}
}

// findCause reads the cause of a failure from the kubelet's log since the files were in place. It returns nil when the
// log has none or cannot be read: the cause only explains a verdict and does not change it.
func (m *StateMachine) findCause(ctx context.Context, p Spec, since time.Duration) *Cause {
	lines, _ := m.Node.Log(ctx, p.Unit, since)
	if found, ok := failure.Recognise(lines); ok {
		return p.withItem(found)
	}
	if last := failure.LastError(lines); last != "" {
		return &Cause{Sentence: "its last error is: " + last, Words: last}
	}

	return nil
}

// explainFailure is findCause, and asks the binary of a kubelet that has ended if the log has no cause: it may go
// elsewhere than to the journal. While a kubelet runs, its binary would only report that its address is in use.
func (w *watcher) explainFailure(ctx context.Context, since time.Duration) *Cause {
	m, p := w.m, w.spec
	c := m.findCause(ctx, p, since)
	hasEnded := w.pid == 0 && slices.ContainsFunc(w.checks, func(c CheckResult) bool {
		return c.Name == unitCheck && c.State == "failed"
	})
	if c != nil || !hasEnded {
		return c
	}

	words := m.Node.AskBinary(ctx, p.Unit)
	if found, ok := failure.Recognise([]string{words}); ok {
		return p.withItem(found)
	}
	if words == "" {
		return nil
	}

	return &Cause{Sentence: "its journal has no error; its binary, asked again, says: " + words, Words: words}
}

// withItem returns a cause with the item of the plan that it refers to.
func (p Spec) withItem(found failure.Cause) *Cause {
	c := &Cause{
		ID:       found.ID,
		Sentence: found.Sentence,
		Words:    found.Words,
		final:    found.Final,
	}
	for _, item := range found.Items {
		if at, ok := p.Sources[item]; ok {
			c.Item = item
			c.At = at
			return c
		}
	}

	if len(found.Items) > 0 {
		c.Item = found.Items[0]
		return c
	}

	// Errors of the cluster's admission rules may refer to any planned label of the Node.
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		item := "label/" + key
		isNamed := strings.Contains(found.Words, key)
		if isNamed && len(item) > len(c.Item) {
			c.Item = item
			c.At = p.Sources[item]
		}
	}

	return c
}
