package activate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/kubelet/failure"
)

// Cause is what the kubelet itself says that it fails of.
type Cause struct {
	ID       string `json:"id,omitempty"`    // of the kind of failure; "" when nobody knows these words
	Sentence string `json:"sentence"`        // in our words, or else the kubelet's last error
	Item     string `json:"item,omitempty"`  // of the plan that it is about, as explain names it
	At       string `json:"at,omitempty"`    // where the site says that: file:line:column and the stage
	Words    string `json:"words,omitempty"` // the kubelet's own

	final bool
}

// String tells it in one sentence.
func (c *Cause) String() string {
	if c.At == "" {
		return c.Sentence
	}

	return fmt.Sprintf("%s (%s, %s)", c.Sentence, c.Item, c.At)
}

// findCause asks the kubelet's log why, from when the files were in place on. Nil when it says nothing, or cannot be read: what was
// seen from outside is the verdict, and this only explains it.
func (m *Machine) findCause(ctx context.Context, p Plan, since time.Duration) *Cause {
	lines, err := m.readLog(ctx, p, since)
	if err != nil || len(lines) == 0 {
		return nil
	}

	found, ok := failure.Recognise(lines)
	if !ok {
		if last := failure.LastError(lines); last != "" {
			return &Cause{Sentence: "its last error is: " + last, Words: last}
		}

		return nil
	}

	return p.withItem(found)
}

// readLog is what the kubelet has logged since a moment of the monotonic clock.
func (m *Machine) readLog(ctx context.Context, p Plan, since time.Duration) ([]string, error) {
	return m.Probe.Log(ctx, p.Unit, m.Clock.Now().Add(since-m.Clock.Monotonic()))
}

// withItem is a cause with the item of the plan that it is about.
func (p Plan) withItem(found failure.Cause) *Cause {
	c := &Cause{ID: found.ID, Sentence: found.Sentence, Words: found.Words, final: found.Final}
	for _, item := range found.Items {
		if at, ok := p.Sources[item]; ok {
			c.Item, c.At = item, at
			return c
		}
	}

	if len(found.Items) > 0 {
		c.Item = found.Items[0]
		return c
	}
	// Words of the cluster's own rules, which may be about anything that is planned of the Node.
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if item := "label/" + key; strings.Contains(found.Words, key) && len(item) > len(c.Item) {
			c.Item, c.At = item, p.Sources[item]
		}
	}

	return c
}
