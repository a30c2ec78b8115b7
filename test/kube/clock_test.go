package kube

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestClock boots machines whose clock is not set yet, and a cluster whose certificate does not fit the clock.
func TestClock(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace replaces what the kernel reports about its clock: apt-get install strace")
	}
	c := start(t, Options{})
	const isSet, isNotSet = unix.TIME_OK, unix.TIME_ERROR
	// preletAt runs prelet with a kernel that reports this state of its clock.
	preletAt := func(o candidate, state int) Result {
		o.t.Helper()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(o.t.Context()), 4*time.Minute)
		defer cancel()
		r, err := o.Run(ctx, "strace", "-f", "--seccomp-bpf", "-qq", "-o", adjtimexCalls, "-e", "trace=adjtimex", "-e", "signal=none",
			"-e", fmt.Sprintf("inject=adjtimex:retval=%d", state),
			"/usr/bin/prelet", "run", "--config", "/etc/prelet")
		must(o.t, err)
		return r
	}
	const server = `servers = ["https://10.0.0.11:6443"]`

	t.Run("not set", func(t *testing.T) {
		o := newCandidate(t, c)
		cert := authorityOf(t, c).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(time.Hour), "10.0.0.11")
		door, err := o.Door("10.0.0.11:6443", serve(t, cert, (&between{}).handler(t, c)))
		must(t, err)
		o.cluster(server, o.pin(), token, `retry = "3s"`)
		r := preletAt(o, isNotSet)
		if r.Exit != untrusted {
			t.Fatalf("want exit %d, got %s", untrusted, r)
		}
		o.says(
			r,
			"waiting for the clock to be set",
			"the clock of this node shows "+time.Now().UTC().Format("2006-01-"),
			"is valid from "+time.Now().UTC().Format("2006-"),
			"the clock is not set",
		)
		o.untouched()

		// The same machine, and systemd-timesyncd reports that the clock is set while prelet waits.
		o.cluster(server, o.pin(), token, `retry = "60s"`)
		must(t, os.Remove(o.Root()+adjtimexCalls))
		done := make(chan error, 1)
		go func() {
			err := waits(o)
			door.Shut()
			done <- errors.Join(err, o.Reach(c, door.address), o.Write("/run/systemd/timesync/synchronized", "", 0o644))
		}()
		r = preletAt(o, isNotSet)
		must(t, <-done)
		if r.Exit != 0 || !strings.Contains(r.Out, "healthy") {
			t.Fatalf("got %s; want Exit 0 and text with \"healthy\"", r)
		}
		o.says(r, "waiting for the clock to be set")
		o.hasJoined()
	})

	t.Run("a certificate of the future", func(t *testing.T) {
		o := newCandidate(t, c)
		// The clock is set, says the kernel: so the certificate is wrong, and nothing is waited for.
		for _, x := range []struct {
			from time.Time
			says string
		}{
			{time.Now().Add(2 * time.Hour), "is valid from"},
			{time.Now().Add(-48 * time.Hour), "is valid from"},
		} {
			cert := authorityOf(t, c).issue(t, pkix.Name{CommonName: "kube-apiserver"}, x.from, "10.0.0.11")
			b := &between{}
			door, err := o.Door("10.0.0.11:6443", serve(t, cert, b.handler(t, c)))
			must(t, err)
			o.cluster(server, o.pin(), token, `retry = "30s"`)
			began := time.Now()
			r := preletAt(o, isSet)
			if took := time.Since(began); r.Exit != untrusted || took > 20*time.Second {
				t.Fatalf("want exit %d at once, got after %s %s", untrusted, took, r)
			}
			o.says(
				r,
				fmt.Sprintf(
					"is valid from %s to %s",
					x.from.UTC().Format(time.RFC3339),
					x.from.Add(24*time.Hour).UTC().Format(time.RFC3339),
				),
				"the clock of this node shows "+time.Now().UTC().Format("2006-01-"),
			)
			o.untouched()
			if b.withToken != 0 {
				t.Error("the token was sent")
			}
			door.Shut()
		}
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.joins()
	})
}

// adjtimexCalls has the calls of adjtimex(2).
const adjtimexCalls = "/run/adjtimex"

// waits until prelet has asked whether the clock is set.
func waits(o candidate) error {
	return waitFor(o.t.Context(), time.Minute, "prelet waits for the clock", func() string {
		if calls, _ := o.Read(adjtimexCalls); calls == "" {
			return "no call of adjtimex"
		}
		return ""
	})
}
