package live

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// A last good answer stands in for one of the cluster's only, up to max_age and not a moment longer, and says that it is stale and why.
func TestFallBack(t *testing.T) {
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	trust, object, file := world.Question{Kind: world.KindTrust}, world.Question{Kind: world.KindObject}, world.Question{Kind: world.KindFile}
	past := &Past{Generation: 7, Recording: &world.Recording{Header: world.Header{Time: then.Format(time.RFC3339)}, Entries: []world.Entry{
		{Question: trust, Answer: world.Answer{Value: json.RawMessage(`{"ca":"x"}`)}},
		{Question: file, Answer: world.Answer{Value: json.RawMessage(`{}`)}},
	}}}
	failed := world.Failure(fault.ClusterUnreachable, "connection refused.", "")
	for name, c := range map[string]struct {
		past *Past
		q    world.Question
		age  time.Duration
		want bool
	}{
		"young": {past, trust, time.Hour, true}, "at its limit": {past, trust, 2 * time.Hour, true},
		"too old": {past, trust, 2*time.Hour + time.Second, false}, "never asked": {past, object, time.Hour, false},
		"not the cluster's": {past, file, time.Hour, false}, "nothing good": {nil, trust, time.Hour, false},
	} {
		a, ok := FallBack(func() *Past { return c.past }, 2*time.Hour, then.Add(c.age))(c.q, failed)
		if ok != c.want || ok && (a.Stale != 7 || a.Because != "unreachable: connection refused" || a.Fault != nil) || !ok && a.Code() != failed.Code() {
			t.Errorf("%s: %v %+v", name, ok, a)
		}
	}
}
