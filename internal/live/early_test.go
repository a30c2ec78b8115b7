package live

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/site"
	"github.com/prelet/prelet/internal/world"
)

// A detection that began early fails as any other: by its error, by a panic, by not ending.
func TestEarlyFails(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, c := range map[string]struct {
		detect func() (world.Facts, error)
		want   string
	}{
		"error": {func() (world.Facts, error) { return world.Facts{}, errors.New("no memory size") }, "no memory size"},
		"panic": {func() (world.Facts, error) { panic("odd device") }, "broke: odd device"},
		"hang":  {func() (world.Facts, error) { <-hang; return world.Facts{}, nil }, "did not end in time"},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(Options{Root: t.TempDir(), Site: &site.Site{}, Early: early(c.detect)})
			t.Cleanup(l.Close)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, ans, err := world.FactsOf.Ask(ctx, l, world.FactsReq{})
			if err == nil || ans.Fail != world.Unusable || !strings.Contains(ans.Detail, c.want) {
				t.Errorf("%v %+v", err, ans)
			}
		})
	}
}

// What was detected early is the answer; a site that waits for links looks again, after the wait.
func TestEarlyIsTheAnswer(t *testing.T) {
	n := 7
	l := New(Options{Root: t.TempDir(), Site: &site.Site{}, Early: early(func() (world.Facts, error) {
		return world.Facts{CPU: world.CPU{Logical: &n}}, nil
	})})
	t.Cleanup(l.Close)
	f, _, err := world.FactsOf.Ask(t.Context(), l, world.FactsReq{})
	if err != nil || f.CPU.Logical == nil || *f.CPU.Logical != 7 {
		t.Errorf("%v %+v", err, f.CPU)
	}
	f, _, err = world.FactsOf.Ask(t.Context(), l, world.FactsReq{WaitLinks: []string{"nosuch0"}, WaitMillis: 1})
	if err == nil && f.CPU.Logical != nil && *f.CPU.Logical == 7 && len(f.Unknown) == 0 {
		t.Error("a detection from before the wait was given")
	}
}
