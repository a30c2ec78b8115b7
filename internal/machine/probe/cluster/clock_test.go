package cluster

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// Dates: a date of 1970 waits for the clock, from whatever source the report that it is set comes; a right clock waits
// for nothing.
func TestClock(t *testing.T) {
	h := newHostile(t, nil)
	cert := h.Certificate()
	right, early, after := time.Now(), time.Unix(3600, 0), cert.NotAfter.AddDate(5, 0, 0)
	both := []string{cert.NotBefore.Format(time.RFC3339), cert.NotAfter.Format(time.RFC3339)}
	ways := map[string]func(context.Context, ClientConfig) error{
		"pins": func(ctx context.Context, o ClientConfig) error { _, err := FetchTrust(ctx, h.pinned(), o); return err },
		"ca_file": func(ctx context.Context, o ClientConfig) error {
			_, err := FetchTrust(ctx, TrustRequest{Endpoint: Endpoint{Servers: []string{h.URL}}, CAPEM: h.CAPEM()}, o)
			return err
		},
		"object": func(ctx context.Context, o ClientConfig) error {
			_, err := fetchConfigMap(ctx, h.object(), o)
			return err
		},
	}
	cases := []struct {
		name string
		// clock returns the time before and after it is set; wait nil means that the setting is never reported.
		before, set time.Time
		wait        bool
		ok          bool
		retry       bool
		text        []string
	}{
		{"set while we wait", early, right, true, true, false, nil},
		{"moves by itself", early, right, false, true, false, nil},
		{"never set, reported", early, early, true, false, true, append(both, "1970-01-01T01:00:00Z")},
		{"never set, not reported", early, early, false, false, true, append(both, "1970-01-01T01:00:00Z")},
		{"expired, and the clock was wrong", after, right, true, true, false, nil},
		{"expired", after, after, false, false, false, append(both, after.Format(time.RFC3339))},
	}
	for _, c := range cases {
		for way, read := range ways {
			t.Run(c.name+" by "+way, func(t *testing.T) {
				shown := h.Authorizations()
				var set atomic.Bool
				waits := 0
				opts := fast()
				opts.Now = func() time.Time {
					if set.Load() {
						return c.set
					}
					return c.before
				}
				retries := 0
				opts.OnRetry = func(Retry) {
					if retries++; retries == 3 && !c.wait {
						set.Store(true)
					}
				}
				if c.wait {
					opts.WaitClock = func(context.Context) error { waits++; set.Store(true); return nil }
				}
				err := read(within(t, time.Minute), givingUp(opts, 5))
				if c.wait && waits != 1 {
					t.Errorf("got %d waits for the clock, want 1", waits)
				}
				if c.ok {
					if err != nil {
						t.Error(err)
					}
					return
				}
				want{Code: fault.ClusterUntrusted, Retry: c.retry, Text: c.text}.check(t, err)
				if n := h.Authorizations() - shown; n != 0 {
					t.Errorf("got %d requests with Authorization, want 0", n)
				}
			})
		}
	}
	t.Run("not set before the deadline", func(t *testing.T) {
		opts := fast()
		opts.Now = func() time.Time { return early }
		ctx, cancel := context.WithCancel(within(t, time.Minute))
		opts.WaitClock = func(ctx context.Context) error { cancel(); return context.DeadlineExceeded }
		err := ways["pins"](ctx, opts)
		want{Code: fault.ClusterUntrusted, Text: append(both, "waiting for the clock")}.check(t, err)
	})
}
