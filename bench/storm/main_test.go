package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/live"
)

func TestSummary(t *testing.T) {
	at := time.Unix(1000, 0)
	again := func(why string, after, asked, wait, most time.Duration) retry {
		return retry{live.Retry{Why: why, Asked: asked, Wait: wait, Least: time.Second - after, Most: most}, at.Add(after)}
	}
	lasting := func(d time.Duration, o outcome) outcome {
		o.began, o.ended = at, at.Add(d)
		return o
	}
	r := summary([]outcome{
		lasting(time.Second, outcome{}),
		lasting(2*time.Second, outcome{retries: []retry{
			again("HTTP 429: too many", 0, time.Second, 1500*time.Millisecond, 2*time.Second), // and the next came after half a second
			again("HTTP 503", 500*time.Millisecond, time.Second, 1002*time.Millisecond, 1500*time.Millisecond),
		}}),
		lasting(9*time.Second, outcome{failure: "no", retries: []retry{again("connection refused", 0, 0, time.Second, time.Second), again("HTTP 429", time.Second, 0, 0, 0)}}),
	}, 9*time.Second)
	if r.Uneven < 0.7 || r.Uneven > 0.71 { // both are at their middle: half, times the root of two
		t.Errorf("unevenness %v", r.Uneven)
	}
	r.Uneven = 0
	want := result{Boots: 3, Failed: 1, Failures: []string{"no"}, Seconds: 9, P50: 2, P90: 9, Max: 9, Retried: 2, Retries: 4, Most: 2,
		Causes: map[string]int{"HTTP 429": 2, "HTTP 503": 1, "connection refused": 1}, Asked: 2, Early: 2, Together: 2, Herd: 4, Waits: 2}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v\nwant %+v", r, want)
	}
}

func TestUneven(t *testing.T) {
	const n = 1000
	chance := rand.New(rand.NewPCG(1, 2))
	for name, c := range map[string]struct {
		next        func() float64
		least, most float64
	}{
		"even":         {chance.Float64, 0, 2.7},
		"none":         {func() float64 { return 0 }, 31, 32},
		"all the same": {func() float64 { return 0.5 }, 15, 16},
		"half of it":   {func() float64 { return chance.Float64() / 2 }, 15, 17},
	} {
		x := make([]float64, n)
		for i := range x {
			x[i] = c.next()
		}
		if got := uneven(x); got < c.least || got > c.most {
			t.Errorf("%s: %.1f, want %.1f to %.1f", name, got, c.least, c.most)
		}
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	if err := (node{Name: "n1", Token: "a.b"}).prepare(dir, "never-run", ""); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "etc/hostname")); err != nil || string(b) != "n1\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := (node{Name: "n1", Kubeconfig: "kind: Config\n"}).prepare(dir, filepath.Join(dir, "no-program"), ""); err == nil {
		t.Error("a node has joined without prelet")
	}
	if _, err := token("").Read("bootstrap-token"); err == nil {
		t.Error("a node that has joined has a token")
	}
	if b, err := token("a.b").Read("bootstrap-token"); err != nil || string(b) != "a.b" {
		t.Errorf("%q, %v", b, err)
	}
}
