package cluster

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prelet/prelet/internal/fault"
)

// judgement is what one server is known to be, at one of its addresses.
type judgement struct {
	target
	failure   *failure
	tries     int
	out       bool      // it is not asked again
	notBefore time.Time // when it is asked again
}

// search looks for a server that answers one question.
type search struct {
	client  *Client
	servers []*url.URL
	proxied bool
	object  string
	attempt func(ctx context.Context, t target) *failure

	judged     []*judgement // in the order in which they were first asked
	clockAsked bool
}

func (j *judgement) due() bool { return !j.out && !j.notBefore.After(time.Now()) }

// try asks each server in order, a name at each of its addresses, until attempt succeeds with one. Each is judged for
// itself: one that is not trusted, refuses, or is not Kubernetes is left out, and the next is asked at once. The
// others are asked again, with a jittered backoff and not before their Retry-After, until ctx's deadline. The fault
// lists each server with its reason, and has the code of the worst.
func (s *search) try(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}
	deadline, _ := ctx.Deadline()
	opts := &s.client.opts
	backoff := wait.Backoff{Duration: opts.BackoffMin, Factor: 3, Jitter: 1, Steps: math.MaxInt32, Cap: opts.BackoffMax}

	for {
		// At most half of what is left, so that a long pause does not skip the last chance.
		pause := max(min(backoff.Step(), time.Until(deadline)/2), opts.BackoffMin)
		if done, err := s.askAll(ctx, deadline, pause); done {
			return err
		}

		next := s.next()
		if next == nil || ctx.Err() != nil {
			return s.failed()
		}
		pause = time.Until(next.notBefore)
		if pause <= 0 {
			continue // others took as long as it had to wait
		}
		if pause >= time.Until(deadline) {
			return s.failed()
		}

		s.client.notify(Retry{Server: next.url(), Why: next.failure.Why, Wait: pause, Until: deadline})
		if opts.Sleep(ctx, pause) != nil {
			return s.failed()
		}
		next.notBefore = time.Time{} // it has waited
	}
}

// askAll asks each server whose wait is over. It is done when one succeeded, or when no server can help.
func (s *search) askAll(ctx context.Context, deadline time.Time, pause time.Duration) (done bool, err error) {
	worked := s.client.lastWorked()
	servers := toFront(s.servers, func(u *url.URL) bool { return u.Host == worked.host })

	for i, server := range servers {
		if s.allWait(server) {
			continue
		}
		share := time.Until(deadline) / time.Duration(len(servers)-i)
		targets, unresolved := s.targets(ctx, server, share)
		targets = toFront(targets, func(t target) bool { return t == worked })
		for k, t := range targets {
			j := s.judgementOf(t)
			if !j.due() {
				continue
			}
			// The servers that are still to be asked share what is left, so that a silent one leaves time for the next.
			share = time.Until(deadline) / time.Duration(len(servers)-i-1+len(targets)-k)
			f := s.ask(ctx, j, share, unresolved)
			switch {
			case f == nil:
				s.client.setWorked(t)
				return true, nil
			case f.class == local:
				return true, f.about(s.object)
			case ctx.Err() != nil:
				return true, s.failed()
			}
			j.out = f.class == final
			j.notBefore = time.Now().Add(pause + f.after)
		}
	}
	return false, nil
}

// ask makes one attempt, and another if it had to wait for the clock to be set. A server whose name cannot be
// resolved has failed already.
func (s *search) ask(ctx context.Context, j *judgement, share time.Duration, f *failure) *failure {
	for {
		if f == nil {
			cause := timeoutError{"answer", share.Round(time.Millisecond)}
			limited, cancel := context.WithTimeoutCause(ctx, share, cause)
			f = s.attempt(limited, j.target)
			cancel()
		}
		if f == nil {
			return nil
		}
		j.tries++
		f.Why = bounded(f.Why)
		if j.failure == nil || ctx.Err() == nil { // an interruption says less than what came before
			j.failure = f
		}
		if f.class != dates || ctx.Err() != nil {
			return f
		}

		clock := s.client.opts.WaitClock
		if clock == nil && f.future {
			f.class = again
			return f
		}
		f.class = final
		if clock == nil || s.clockAsked {
			return f
		}
		s.clockAsked = true
		deadline, _ := ctx.Deadline()
		s.client.notify(Retry{Server: j.url(), Why: f.Why, Until: deadline})
		if err := clock(ctx); err != nil {
			f.Why += "; waiting for the clock to be set: " + quote(err.Error())
			return f
		}
		f = nil
	}
}

// allWait reports whether a server was asked before, and is now to be asked at none of its addresses.
func (s *search) allWait(server *url.URL) bool {
	known := false
	for _, j := range s.judged {
		if j.host != server.Host {
			continue
		}
		if j.due() {
			return false
		}
		known = true
	}
	return known
}

// targets returns a server's addresses: those that DNS has now, and those that it had before in this call, which keep
// their judgement. A name that cannot be resolved, and never could, is a target without an address. Through a proxy
// the name is the address. The lookup takes no longer than the server's share of the deadline.
func (s *search) targets(ctx context.Context, server *url.URL, share time.Duration) ([]target, *failure) {
	name, port := server.Hostname(), server.Port()
	if _, err := netip.ParseAddr(name); err == nil || s.proxied {
		return []target{{server.Host, server.Host}}, nil
	}

	ctx, cancel := context.WithTimeout(ctx, min(share, s.client.opts.DialTimeout))
	defer cancel()
	addresses, err := s.client.opts.LookupHost(ctx, name)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Name: name, Err: "it has no address"}
	}

	var out []target
	for _, a := range addresses {
		out = append(out, target{server.Host, net.JoinHostPort(a, port)})
	}
	for _, j := range s.judged {
		if j.host == server.Host && j.address != "" && !slices.Contains(out, j.target) {
			out = append(out, j.target)
		}
	}

	unresolved := target{host: server.Host}
	if len(out) == 0 {
		return []target{unresolved}, classifyError(err, time.Time{}, "")
	}
	s.judged = slices.DeleteFunc(s.judged, func(j *judgement) bool { return j.target == unresolved })
	return out, nil
}

// next is the server that is asked next; nil if all are left out.
func (s *search) next() *judgement {
	var next *judgement
	for _, j := range s.judged {
		if !j.out && (next == nil || j.notBefore.Before(next.notBefore)) {
			next = j
		}
	}
	return next
}

// failed is the error of all servers: the worst one's, with each one's reason where there are several.
func (s *search) failed() error {
	worst := s.judged[0]
	tries := 0
	var reasons []string
	for _, j := range s.judged {
		if severity(j.failure.Code) > severity(worst.failure.Code) {
			worst = j
		}
		tries = max(tries, j.tries)
		reasons = append(reasons, j.String()+": "+j.failure.Why)
	}

	f := worst.failure.about(s.object)
	f.At.File = worst.url()
	if len(reasons) > 1 {
		f.At.File, f.Why = "", strings.Join(reasons, "; ")
	}
	if tries > 1 {
		f.Why += fmt.Sprintf(" (tried %d times)", tries)
	}

	return f
}

// severity orders codes: what may be an attack is the highest, what may be a cable the lowest.
func severity(c fault.Code) int {
	return slices.Index([]fault.Code{
		fault.ClusterUnreachable, fault.Absent, fault.ClusterUnusable, fault.ClusterDenied, fault.ClusterUntrusted,
	}, c)
}

func (s *search) judgementOf(t target) *judgement {
	for _, j := range s.judged {
		if j.target == t {
			return j
		}
	}
	j := &judgement{target: t}
	s.judged = append(s.judged, j)
	return j
}

// toFront returns the list with the first match before all others.
func toFront[T any](list []T, match func(T) bool) []T {
	i := slices.IndexFunc(list, match)
	if i < 1 {
		return list
	}
	return slices.Concat(list[i:i+1], list[:i], list[i+1:])
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

func (c *Client) lastWorked() target {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.worked
}

func (c *Client) setWorked(t target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worked = t
}

// invalid is the error of a request that cannot be sent.
func invalid(object, hint, format string, args ...any) error {
	return fail(fault.ClusterUnusable, final, hint, format, args...).about(object)
}
