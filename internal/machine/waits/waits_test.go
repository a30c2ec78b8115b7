package waits

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/machine/probe"
)

func TestWaitsAreToldOnce(t *testing.T) {
	var said []string
	w := &Reporter{Say: func(s string) { said = append(said, s) }}
	until := time.Date(2026, 11, 20, 10, 57, 3, 0, time.Local)
	for _, r := range []probe.Retry{
		{Server: "https://a:6443", Why: "connection refused", Until: until}, // the next server is asked at once
		{Server: "https://b:6443", Why: "HTTP 404", Wait: time.Second, Until: until},
		{Server: "https://a:6443", Why: "connection refused", Until: until},
		{Server: "https://b:6443", Why: "HTTP 503", Wait: time.Second, Until: until}, // only once: silent
		{Server: "https://b:6443", Why: "HTTP 404", Wait: time.Second, Until: until},
		{Server: "https://b:6443", Why: "HTTP 404", Wait: time.Second, Until: until},
		{Server: "https://b:6443", Why: "HTTP 429", Wait: 3 * time.Second, Until: until}, // reported at once
		{Server: "https://b:6443", Why: "HTTP 429", Wait: 3 * time.Second, Until: until},
	} {
		w.Retry(r)
	}
	w.End()
	w.Retry(probe.Retry{Server: "https://b:6443", Why: "HTTP 503", Wait: time.Second, Until: until})
	want := []string{
		"waiting for https://b:6443: HTTP 404; trying until 10:57:03",
		"waiting for https://b:6443: HTTP 429; trying until 10:57:03",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%q", said)
	}
}

// The wait for the clock is logged, and ends with the state of the machine's clock.
func TestWaitForTheClockIsTold(t *testing.T) {
	var said []string
	w := &Reporter{Say: func(s string) { said = append(said, s) }}
	never := errors.New("it was not set")
	if err := w.AnnounceClock(func(context.Context) error { return never })(t.Context()); !errors.Is(err, never) {
		t.Errorf("the machine's answer became %v", err)
	}
	w.End()
	if err := w.AnnounceClock(func(context.Context) error { return nil })(t.Context()); err != nil {
		t.Error(err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "waiting for the clock to be set: it is 20") {
		t.Errorf("%q", said)
	}
}
