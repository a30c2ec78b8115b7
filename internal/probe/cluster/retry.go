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

// serverState is the state of one server, at one of its addresses, during a search.
type serverState struct {
	target
	failure    *failure // the latest
	tries      int
	isExcluded bool      // it is not asked again
	notBefore  time.Time // when it may be asked again
}

func (s *serverState) isDue() bool {
	isEarly := s.notBefore.After(time.Now())
	return !s.isExcluded && !isEarly
}

// record keeps a failure. An interruption does not replace an earlier failure, which has more information.
func (s *serverState) record(ctx context.Context, f *failure) {
	s.tries++
	f.Why = truncate(f.Why)

	if s.failure == nil || ctx.Err() == nil {
		s.failure = f
	}
}

// attemptFunc makes one attempt with one server.
type attemptFunc func(ctx context.Context, t target) *failure

// search finds a server with which attempt succeeds.
type search struct {
	client  *Client
	servers []*url.URL
	proxied bool
	object  string // for messages
	attempt attemptFunc

	states        []*serverState // in the order in which they were first asked
	isClockWaited bool           // WaitClock was called
}

// run asks each server in order, a name at each of its addresses, until attempt succeeds with one. A server that
// is not trusted, refuses, or is not Kubernetes is excluded, and the next is asked at once. The others are asked
// again, with a jittered backoff and not before their Retry-After, until ctx's deadline. The fault lists each
// server with its reason, and has the code of the worst.
func (s *search) run(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultBudget)
		defer cancel()
	}

	deadline, _ := ctx.Deadline()
	opts := &s.client.opts
	backoff := wait.Backoff{
		Duration: opts.BackoffMin,
		Factor:   3,
		Jitter:   1,
		Steps:    math.MaxInt32,
		Cap:      opts.BackoffMax,
	}

	for {
		// At most half of the remaining time, so that a long pause leaves time for a last attempt.
		half := time.Until(deadline) / 2
		pause := max(min(backoff.Step(), half), opts.BackoffMin)

		if isDone, err := s.askAll(ctx, pause); isDone {
			return err
		}

		next := s.next()
		if next == nil || ctx.Err() != nil {
			return s.failed()
		}

		pause = time.Until(next.notBefore)
		if pause <= 0 {
			continue // the attempts with other servers took longer
		}

		if pause >= time.Until(deadline) {
			return s.failed()
		}

		opts.OnRetry(Retry{
			Server: next.url(),
			Why:    next.failure.Why,
			Wait:   pause,
			Until:  deadline,
		})

		if opts.Sleep(ctx, pause) != nil {
			return s.failed()
		}

		next.notBefore = time.Time{}
	}
}

// askAll asks each server that is due. It is done if one succeeded, or if no server can help.
func (s *search) askAll(ctx context.Context, pause time.Duration) (isDone bool, err error) {
	preferred := *s.client.preferred.Load()
	servers := moveToFront(s.servers, func(u *url.URL) bool {
		return u.Host == preferred.host
	})

	for i, server := range servers {
		if s.isWaiting(server) {
			continue
		}

		others := len(servers) - i - 1
		targets, unresolved := s.resolve(ctx, server, shareOf(ctx, others+1))
		targets = moveToFront(targets, func(t target) bool {
			return t == preferred
		})

		for k, t := range targets {
			state := s.stateOf(t)
			if !state.isDue() {
				continue
			}

			f := unresolved
			if f == nil {
				// A silent server leaves time for the others.
				share := shareOf(ctx, others+len(targets)-k)
				f = s.ask(ctx, state, share)
			} else {
				state.record(ctx, f)
			}

			switch {
			case f == nil:
				s.client.preferred.Store(&t)
				return true, nil
			case f.class == classLocal:
				return true, f.toFault(s.object)
			case ctx.Err() != nil:
				return true, s.failed()
			}

			state.isExcluded = f.class == classFinal
			state.notBefore = time.Now().Add(pause + f.retryAfter)
		}
	}

	return false, nil
}

// shareOf returns an equal share of the time until ctx's deadline.
func shareOf(ctx context.Context, n int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(n)
}

// ask makes one attempt. If a certificate is not valid at the current time, it waits for the clock to be set and tries
// again, once a search.
func (s *search) ask(ctx context.Context, state *serverState, share time.Duration) *failure {
	f := s.try(ctx, state, share)
	if f == nil || f.class != classDates || ctx.Err() != nil {
		return f
	}

	if s.waitForClock(ctx, state, f) {
		f = s.try(ctx, state, share)
	}

	if f != nil && f.class == classDates {
		f.class = classFinal
		if f.notYetValid && s.client.opts.WaitClock == nil {
			f.class = classRetry
		}
	}

	return f
}

// try makes one attempt within a share of the time, and records its failure.
func (s *search) try(ctx context.Context, state *serverState, share time.Duration) *failure {
	cause := timeoutError{"response", share.Round(time.Millisecond)}
	limited, cancel := context.WithTimeoutCause(ctx, share, cause)
	defer cancel()

	f := s.attempt(limited, state.target)
	if f != nil {
		state.record(ctx, f)
	}

	return f
}

// waitForClock waits for the clock to be set, after the failure f. It returns false if that does not help: the clock
// was waited for before, or is not set in time, which it adds to f.
func (s *search) waitForClock(ctx context.Context, state *serverState, f *failure) bool {
	waitClock := s.client.opts.WaitClock
	if waitClock == nil || s.isClockWaited {
		return false
	}

	s.isClockWaited = true
	deadline, _ := ctx.Deadline()
	s.client.opts.OnRetry(Retry{
		Server: state.url(),
		Why:    f.Why,
		Until:  deadline,
	})

	err := waitClock(ctx)
	if err != nil {
		f.Why += "; waiting for the clock to be set: " + quote(err.Error())
	}

	return err == nil
}

// isWaiting reports whether a server was asked before, and none of its addresses is due.
func (s *search) isWaiting(server *url.URL) bool {
	wasAsked := false

	for _, state := range s.states {
		if state.host != server.Host {
			continue
		}

		if state.isDue() {
			return false
		}

		wasAsked = true
	}

	return wasAsked
}

// resolve returns the addresses of a server: the current ones of DNS, and the earlier ones of this search, which keep
// their state. A name that has never been resolved is returned without an address, and with the failure. With a proxy
// the name is the address. The lookup takes at most share.
func (s *search) resolve(
	ctx context.Context, server *url.URL, share time.Duration,
) ([]target, *failure) {
	name := server.Hostname()
	if _, err := netip.ParseAddr(name); err == nil || s.proxied {
		return []target{{server.Host, server.Host}}, nil
	}

	limit := min(share, s.client.opts.DialTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	addresses, err := s.client.opts.LookupHost(ctx, name)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Name: name, Err: "it has no address"}
	}

	var out []target
	for _, a := range addresses {
		address := net.JoinHostPort(a, server.Port())
		out = append(out, target{server.Host, address})
	}

	for _, state := range s.states {
		isEarlier := state.host == server.Host && state.address != ""
		if isEarlier && !slices.Contains(out, state.target) {
			out = append(out, state.target)
		}
	}

	unresolved := target{host: server.Host}
	if len(out) == 0 {
		return []target{unresolved}, classifyError(err, time.Time{}, "")
	}

	s.states = slices.DeleteFunc(s.states, func(state *serverState) bool {
		return state.target == unresolved
	})

	return out, nil
}

// next returns the server that may be asked first, nil if all are excluded.
func (s *search) next() *serverState {
	var next *serverState
	for _, state := range s.states {
		if state.isExcluded {
			continue
		}

		if next == nil || state.notBefore.Before(next.notBefore) {
			next = state
		}
	}

	return next
}

// failed returns the error of all servers: the worst failure, with the reason of each server if there are several.
func (s *search) failed() error {
	worst, tries := s.states[0], 0

	var reasons []string

	for _, state := range s.states {
		if severity(state.failure.Code) > severity(worst.failure.Code) {
			worst = state
		}

		tries = max(tries, state.tries)
		reasons = append(reasons, state.String()+": "+state.failure.Why)
	}

	f := worst.failure.toFault(s.object)
	f.At.File = worst.url()

	if len(reasons) > 1 {
		f.At.File, f.Why = "", strings.Join(reasons, "; ")
	}

	if tries > 1 {
		f.Why += fmt.Sprintf(" (tried %d times)", tries)
	}

	return f
}

// severity orders codes: a possible attack is the highest, an unreachable server the lowest.
func severity(c fault.Code) int {
	return slices.Index([]fault.Code{
		fault.ClusterUnreachable,
		fault.Absent,
		fault.ClusterUnusable,
		fault.ClusterDenied,
		fault.ClusterUntrusted,
	}, c)
}

func (s *search) stateOf(t target) *serverState {
	i := slices.IndexFunc(s.states, func(state *serverState) bool {
		return state.target == t
	})
	if i >= 0 {
		return s.states[i]
	}

	state := &serverState{target: t}
	s.states = append(s.states, state)

	return state
}

// moveToFront returns the list with the first match before all others.
func moveToFront[T any](list []T, isMatch func(T) bool) []T {
	i := slices.IndexFunc(list, isMatch)
	if i < 1 {
		return list
	}

	return slices.Concat(
		list[i:i+1],
		list[:i],
		list[i+1:],
	)
}

// truncate limits a reason that is joined from several quotes.
func truncate(s string) string {
	const maxReason = 1024
	if len(s) > maxReason {
		return strings.ToValidUTF8(s[:maxReason], "") + "…"
	}

	return s
}
