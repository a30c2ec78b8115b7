package kube

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestClock boots machines whose clock is not set yet, and a cluster whose certificate does not fit the clock.
func TestClock(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("shiftclock knows the registers of one architecture")
	}
	program := filepath.Join(t.TempDir(), "shiftclock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./shiftclock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("got %v: %s; want no error", err, out)
	}
	text, err := os.ReadFile(program)
	must(t, err)
	c := start(t, Options{})
	// preletAt runs prelet with a wall clock that differs by that much and counts as not set, until the file exists.
	preletAt := func(o candidate, differs time.Duration, set string, args ...string) Result {
		o.t.Helper()
		must(o.t, o.Write("/opt/shiftclock", string(text), 0o755))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(o.t.Context()), 4*time.Minute)
		defer cancel()
		words := append(
			[]string{"/opt/shiftclock", strconv.FormatInt(int64(differs/time.Second), 10), set, "/usr/bin/prelet"},
			args...)
		r, err := o.Run(ctx, append(words, "--config", "/etc/prelet")...)
		must(o.t, err)
		return r
	}
	const set = "/run/clock-is-set"
	server := `servers = ["https://10.0.0.11:6443"]`
	year1970 := -time.Since(time.Unix(3600, 0)).Truncate(time.Second)

	t.Run("1970", func(t *testing.T) {
		o := newCandidate(t, c)
		must(t, o.Reach(c, "10.0.0.11:6443"))
		o.cluster(server, o.pin(), token, `retry = "3s"`)
		r := preletAt(o, year1970, set, "run")
		if r.Exit != untrusted {
			t.Fatalf("want exit %d, got %s", untrusted, r)
		}
		o.says(
			r,
			"waiting for the clock to be set",
			"the clock of this node shows 1970-01-01T",
			"is valid from "+time.Now().UTC().Format("2006-"),
			"the clock is not set",
		)
		o.untouched()

		// The same machine, and its time service gets an answer while prelet waits.
		o.cluster(server, o.pin(), token, `retry = "60s"`)
		must(t, os.Remove(o.Root()+set+".asked"))
		done := make(chan error, 1)
		go func() { done <- errors.Join(waits(o, set), o.Write(set, "", 0o644)) }()
		r = preletAt(o, year1970, set, "run")
		must(t, <-done)
		if r.Exit != 0 || !strings.Contains(r.Out, "healthy") {
			t.Fatalf("got %s; want Exit 0 and text with \"healthy\"", r)
		}
		o.says(r, "waiting for the clock to be set")
		o.hasJoined()
	})

	t.Run("a certificate of the future", func(t *testing.T) {
		o := newCandidate(t, c)
		must(
			t,
			o.Write(set, "", 0o644),
		) // the clock is set, says the kernel: so the certificate is wrong, and nothing is waited for
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
			r := preletAt(o, 0, set, "run")
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

	t.Run("systemd's mark", func(t *testing.T) {
		// The clock stays as it is without a report that it is set, and the certificate is of the future; then
		// systemd-timesyncd reports that it is set, and the server has another certificate.
		const never = "/run/never"
		o := newCandidate(t, c)
		cert := authorityOf(
			t,
			c,
		).issue(t, pkix.Name{CommonName: "kube-apiserver"}, time.Now().Add(time.Hour), "10.0.0.11")
		door, err := o.Door("10.0.0.11:6443", serve(t, cert, (&between{}).handler(t, c)))
		must(t, err)
		o.cluster(server, o.pin(), token, `retry = "60s"`)
		done := make(chan error, 1)
		go func() {
			err := waits(o, never)
			door.Shut()
			done <- errors.Join(err, o.Reach(c, door.address), o.Write("/run/systemd/timesync/synchronized", "", 0o644))
		}()
		r := preletAt(o, 0, never, "run")
		must(t, <-done)
		if r.Exit != 0 || !strings.Contains(r.Out, "healthy") {
			t.Fatalf("got %s; want Exit 0 and text with \"healthy\"", r)
		}
		o.says(r, "waiting for the clock to be set")
		o.hasJoined()
	})
}

// waits until prelet has asked whether the clock is set.
func waits(o candidate, set string) error {
	return waitFor(o.t.Context(), time.Minute, "prelet waits for the clock", func() string {
		if _, err := os.Stat(o.Root() + set + ".asked"); err != nil {
			return err.Error()
		}
		return ""
	})
}
