package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTurns plays what a list of servers answers, in a time of its own, and has who is asked when. A server's answers are repeated:
// "x" for nobody there, "d" for a refusal that may yet change, a number for as many seconds that it asks us to wait.
func TestTurns(t *testing.T) {
	const budget = 20 * time.Second
	for _, c := range []struct {
		name    string
		servers []string
		want    string
	}{
		{"one that asks for a time", []string{"7"}, "a0 a7 a14"},
		{"one that asks for more than there is", []string{"30"}, "a0"},
		{"nobody there", []string{"x", "x"}, "a0 b0 a1 b1 a3 b3 a7 b7 a12 b12 a17 b17"},
		{"one asks for a time, nobody is at the other", []string{"9", "x"}, "a0 b0 b1 b3 b7 a9 b12 b17 a18"},
		{"one asks for more than there is, nobody is at the other", []string{"30", "x"}, "a0 b0 b1 b3 b7 b12 b17"},
		{"each asks for its own time", []string{"9", "4", "30"}, "a0 b0 c0 b4 b8 a9 b12 b16 a18"},
		{"a refusal is waited for before the next", []string{"d", "x"}, "a0 b1 a3 b7 a12 b17"},
		{"a refusal, and one that asks for a time", []string{"d", "6"}, "a0 b1 a3 b7 a7 a12 b13 a17 b19"},
	} {
		opts := Options{BackoffMin: 2 * time.Second, BackoffMax: 10 * time.Second, Rand: func() float64 { return 0 }}.withDefaults()
		turns := turns{pace: pace{opts: &opts, backoff: opts.BackoffMin}, of: make([]turn, len(c.servers))}
		began := time.Now()
		now, deadline := began, began.Add(budget)
		got := ""
		for i := 0; ; {
			got += fmt.Sprintf(" %c%d", 'a'+i, now.Sub(began)/time.Second)
			f := &failure{class: reach}
			if answer := c.servers[i]; answer == "d" {
				f.class = doubt
			} else if answer != "x" {
				_, _ = fmt.Sscan(answer, &f.after)
			}
			_, w := turns.failed(i, f, now, deadline)
			if w.pause >= deadline.Sub(now) {
				break
			}
			if now = now.Add(w.pause); w.pause > 0 {
				turns.waited(now)
			}
			i = turns.next(i, now)
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
		}
	}
}
