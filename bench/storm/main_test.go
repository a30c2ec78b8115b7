package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/live"
)

func TestSummary(t *testing.T) {
	at := time.Unix(1000, 0)
	again := func(why string, after, asked, wait time.Duration) retry {
		return retry{live.Retry{Why: why, Asked: asked, Wait: wait, Least: time.Second - after}, at.Add(after)}
	}
	r := summary([]outcome{
		{seconds: 1},
		{seconds: 2, retries: []retry{again("HTTP 429: too many", 0, time.Second, 1500*time.Millisecond), again("HTTP 429: too many", time.Second, time.Second, 502*time.Millisecond)}},
		{seconds: 9, failure: "no", retries: []retry{again("connection refused", 0, 0, time.Second)}},
	}, 9*time.Second)
	want := result{Boots: 3, Failed: 1, Failures: []string{"no"}, Seconds: 9, P50: 2, P90: 9, Max: 9, Retried: 2, Retries: 3, Most: 2,
		Causes: map[string]int{"HTTP 429": 2, "connection refused": 1}, Early: 1, Together: 2, Herd: 3}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("%+v\nwant %+v", r, want)
	}
}

func TestPrepare(t *testing.T) {
	dir := t.TempDir()
	if err := (node{Name: "n1", Kubeconfig: "apiVersion: v1\n"}).prepare(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := token("").Read("bootstrap-token"); err == nil {
		t.Error("a node that has joined has a token")
	}
	if b, err := token("a.b").Read("bootstrap-token"); err != nil || string(b) != "a.b" {
		t.Errorf("%q, %v", b, err)
	}
}
