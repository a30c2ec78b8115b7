package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/probe"
)

func TestSummary(t *testing.T) {
	at := time.Unix(1000, 0)
	again := func(why string, after, wait time.Duration) retry {
		return retry{probe.Retry{Why: why, Wait: wait}, at.Add(after)}
	}
	lasting := func(d time.Duration, o outcome) outcome {
		o.began, o.ended = at, at.Add(d)
		return o
	}
	r := summary([]outcome{
		lasting(time.Second, outcome{}),
		lasting(2*time.Second, outcome{retries: []retry{
			again("HTTP 429: too many", 0, 1500*time.Millisecond),
			again("HTTP 503", 500*time.Millisecond, 1002*time.Millisecond),
		}}),
		lasting(
			9*time.Second,
			outcome{
				failure: "no",
				retries: []retry{again("connection refused", 0, time.Second), again("HTTP 429", time.Second, 0)},
			},
		),
	}, 9*time.Second)
	want := stormSummary{
		Boots:    3,
		Failed:   1,
		Failures: []string{"no"},
		Seconds:  9,
		P50:      2,
		P90:      9,
		Max:      9,
		Retried:  2,
		Retries:  4,
		Most:     2,
		Causes:   map[string]int{"HTTP 429": 2, "HTTP 503": 1, "connection refused": 1},
		Together: 2,
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v\nwant %+v", r, want)
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
	if err := (node{Name: "n1", Kubeconfig: "kind: Config\n"}).prepare(
		dir,
		filepath.Join(dir, "no-program"),
		"",
	); err == nil {
		t.Error("a node has joined without prelet")
	}
	if _, err := token("").Read("bootstrap-token"); err == nil {
		t.Error("a node that has joined has a token")
	}
	if b, err := token("a.b").Read("bootstrap-token"); err != nil || string(b) != "a.b" {
		t.Errorf("%q, %v", b, err)
	}
}
