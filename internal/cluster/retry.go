package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// try calls attempt for one server after another until it succeeds, is told that nothing will help, or the deadline
// comes. A server that cannot be reached, or turns us away, is followed by the next at once; after a whole round, or an answer that
// may yet change, it waits.
func (c *Client) try(ctx context.Context, servers []*url.URL, object string, attempt func(ctx context.Context, server *url.URL, dial time.Duration) *failure) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	latest := make([]*failure, len(servers))
	clockAsked := false
	turns := turns{pace: pace{opts: &c.opts, backoff: c.opts.BackoffMin}, of: make([]turn, len(servers))}
	var doubted time.Time // since when refusals are that nobody can tell the meaning of

	report := func(i, retries int) error {
		f := latest[i]
		return &Error{Kind: f.kind, Server: servers[i].String(), Object: object, Detail: f.detail, Hint: f.hint, Err: f.err, Retries: retries}
	}
	deadline, _ := ctx.Deadline()
	i := c.first(servers)
	for n := 0; ; n++ {
		giveUp := func() error { return report(mostTelling(latest, i), n) }
		f := attempt(ctx, servers[i], c.dialShare(deadline, turns.left(i, deadline)))
		if f == nil {
			c.mu.Lock()
			c.worked = servers[i].Host
			c.mu.Unlock()
			return nil
		}
		f.detail = bounded(f.detail)
		over := ctx.Err() != nil || !time.Now().Before(deadline) // a connection notices the deadline before its context
		if latest[i] == nil || !over && f.back == 0 {            // an interruption tells less than what came before, and so does its end
			latest[i] = f
		}
		if over {
			return giveUp()
		}
		switch {
		case f.class != doubt:
			doubted = time.Time{}
		case doubted.IsZero():
			doubted = time.Now()
		}
		if f.class == final || f.class == doubt && time.Since(doubted) > refusalGrace {
			return report(i, n)
		}
		if f.class == dates && c.opts.WaitClock != nil {
			if clockAsked {
				return report(i, n)
			}
			clockAsked = true
			c.notify(Retry{Attempt: n + 1, Server: servers[i].String(), Why: f.detail, Until: deadline})
			if err := c.opts.WaitClock(ctx); err != nil {
				f.detail += "; waiting for the clock to be set: " + quote(err.Error())
				return report(i, n)
			}
			turns.of[i] = turn{done: true, last: f}
			if j := turns.next(i, time.Now()); j >= 0 {
				i = j
			}
			continue
		}
		if f.class == dates && !f.future {
			return report(i, n)
		}

		now := time.Now()
		why, w := turns.failed(i, f, now, deadline)
		if w.pause >= time.Until(deadline) {
			return giveUp()
		}
		c.notify(Retry{Attempt: n + 1, Server: servers[why].String(), Why: turns.of[why].last.detail, Asked: w.asked, Wait: w.pause, Least: w.least, Most: w.most, Until: deadline})
		if w.pause > 0 {
			if c.opts.Sleep(ctx, w.pause) != nil {
				return giveUp()
			}
			turns.waited(now.Add(w.pause))
		}
		i = turns.next(i, time.Now())
	}
}

// bounded cuts a detail that was put together from parts, each of them bounded already.
func bounded(s string) string {
	const most = 1024
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func (c *Client) notify(r Retry) {
	if c.opts.OnRetry != nil {
		c.opts.OnRetry(r)
	}
}

// first is the index of the server that answered last.
func (c *Client) first(servers []*url.URL) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range servers {
		if s.Host == c.worked {
			return i
		}
	}
	return 0
}

// dialShare leaves each server that is still to be asked in this round the same part of the deadline.
func (c *Client) dialShare(deadline time.Time, left int) time.Duration {
	if left == 1 {
		return c.opts.DialTimeout // what is left bounds it anyway, and says so
	}
	return max(min(c.opts.DialTimeout, time.Until(deadline)/time.Duration(left)), time.Millisecond)
}

// mostTelling chooses, among the servers' last failures, one where the cluster answered over one where nobody did,
// and else the one asked last.
func mostTelling(latest []*failure, last int) int {
	best := last
	for i, f := range latest {
		if f != nil && rank(f) > rank(latest[best]) {
			best = i
		}
	}
	return best
}

func rank(f *failure) int {
	switch {
	case f == nil:
		return -1
	case f.class == reach:
		return 0
	case f.kind == Unreachable:
		return 1
	}
	return 2
}

// invalid is the error of a request that cannot be sent.
func invalid(object, hint, format string, args ...any) error {
	return &Error{Kind: Unusable, Object: object, Detail: fmt.Sprintf(format, args...), Hint: hint}
}
