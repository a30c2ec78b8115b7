package cluster

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
)

// TestRotationForgetsNothing asks a name whose address changes with each lookup: what was untrusted stays so.
func TestRotationForgetsNothing(t *testing.T) {
	good, evil := demo.NewAuthority("cluster"), demo.NewAuthority("evil")
	bad, busy := newHostile(t, evil), newHostile(t, good)
	busy.Intercept = answerWith(503)
	opts := givingUp(fast(), 6)
	lookups := 0
	opts.LookupHost = func(context.Context, string) ([]string, error) {
		lookups++
		if lookups == 1 {
			return []string{"192.0.2.1", "192.0.2.2"}, nil
		}
		return []string{"192.0.2.2"}, nil
	}
	opts.Dial = dialAt(map[string]string{"192.0.2.1:6443": bad.URL, "192.0.2.2:6443": busy.URL})

	err := readObject(t, busy.objectAt("localhost:6443"), opts)

	if code := fault.CodeOf(err); code != fault.ClusterUntrusted {
		t.Errorf("got %v, want an error of kind %v", err, fault.ClusterUntrusted)
	}
}

// TestSilentDNS has two names that are never resolved before a healthy server, which is asked all the same.
func TestSilentDNS(t *testing.T) {
	good := newHostile(t, nil)
	ctx := within(t, time.Hour)
	opts := fast()
	opts.DialTimeout, opts.RequestTimeout = time.Hour, time.Hour
	opts.LookupHost = func(lookup context.Context, h string) ([]string, error) {
		checkShare(t, ctx, lookup)
		return nil, &net.DNSError{Name: h, Err: "i/o timeout", IsTimeout: true}
	}
	req := good.objectAt("a.example:6443", "b.example:6443", good.URL)

	if _, err := fetchConfigMap(ctx, req, opts); err != nil {
		t.Errorf("got %v, want the healthy server's answer", err)
	}
}

// checkShare wants that a step of a search leaves a part of its hour for the others.
func checkShare(t *testing.T, search, step context.Context) {
	t.Helper()
	end, _ := search.Deadline()
	if got, ok := step.Deadline(); !ok || end.Sub(got) < 15*time.Minute {
		t.Errorf("the deadline of one step: got %s before that of the search, %t; want 15m or more", end.Sub(got), ok)
	}
}

// TestRetryAfterBesideSilent asks a healthy server again when its Retry-After is over, and does not add to it the time
// that a silent server takes.
func TestRetryAfterBesideSilent(t *testing.T) {
	good := newHostile(t, nil)
	good.Intercept = first(1, answerWith(503, "Retry-After", "1"))
	silent := listen(t, func(net.Conn) {})
	opts := ClientConfig{RequestTimeout: time.Second, BackoffMin: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond}
	req := good.objectAt(silent, good.URL)

	begin := time.Now()
	_, err := fetchConfigMap(within(t, 60*time.Second), req, opts)

	if took := time.Since(begin); err != nil || took > 30*time.Second {
		t.Errorf("got %v after %v, want an answer after about 2s", err, took)
	}
}
