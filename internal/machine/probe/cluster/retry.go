package cluster

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/prelet/prelet/internal/fault"
)

// server is one server of a search: its last failure, with the address that gave it, and when it may be asked again.
type server struct {
	host      string
	at        target    // of failure
	failure   *failure  // see record; nil if it was not asked
	tries     int       // how often it was asked
	notBefore time.Time // when it may be asked again
}

// record keeps a failure. An interruption does not replace an earlier failure, which has more information, and nothing
// replaces the failure of an address that is not trusted.
func (s *server) record(ctx context.Context, t target, f *failure) {
	f.Why = truncate(f.Why)

	old := s.failure
	if old == nil || ctx.Err() == nil && !(old.class == classFinal && old.Code == fault.ClusterUntrusted) {
		s.at, s.failure = t, f
	}
}

// attemptFunc makes one attempt with one server.
type attemptFunc func(ctx context.Context, t target) *failure

// search finds a server with which attempt succeeds.
type search struct {
	client  *Client
	hosts   []string
	proxied bool
	object  string // for messages
	attempt attemptFunc

	isClockWaited bool // WaitClock was called
}

// run asks each server in order until attempt succeeds with one. A server that is not trusted, refuses, or is not
// Kubernetes is not asked again. The others are asked again, with a jittered backoff and not before their Retry-After,
// until ctx's deadline. The fault lists each server with its reason, and has the code of the worst.
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

	var servers []*server
	for _, host := range moveToFront(s.hosts, s.client.preferred.Load().host) {
		servers = append(servers, &server{host: host})
	}

	for {
		// At most half of the remaining time, so that a long pause leaves time for a last attempt.
		half := time.Until(deadline) / 2
		pause := max(min(backoff.Step(), half), opts.BackoffMin)

		for i, server := range servers {
			if server.notBefore.After(time.Now()) {
				continue
			}

			switch f := s.ask(ctx, server, len(servers)-i-1); {
			case f == nil:
				return nil
			case f.class == classLocal:
				return f.toFault(s.object)
			case ctx.Err() != nil:
				return s.failed(servers)
			case f.class == classFinal:
				server.notBefore = deadline
			default:
				server.notBefore = time.Now().Add(pause + f.retryAfter)
			}
		}

		next := slices.MinFunc(servers, func(a, b *server) int {
			return a.notBefore.Compare(b.notBefore)
		})

		if !next.notBefore.Before(deadline) {
			return s.failed(servers)
		}

		// A pause even where the attempts with other servers took longer: no server is asked twice without one.
		pause = max(time.Until(next.notBefore), time.Millisecond)

		opts.OnRetry(Retry{
			Server: target{host: next.host}.url(),
			Why:    next.failure.Why,
			Wait:   pause,
			Until:  deadline,
		})

		if opts.Sleep(ctx, pause) != nil {
			return s.failed(servers)
		}

		next.notBefore = time.Time{}
	}
}

// ask asks a server at each address of its name until one succeeds. The time is divided by the addresses and the other
// servers, so that a silent one leaves time for the rest. The failure is final if it is at each address.
func (s *search) ask(ctx context.Context, server *server, others int) *failure {
	server.tries++

	targets, unresolved := s.resolve(ctx, server.host, shareOf(ctx, others+1))
	out := &failure{class: classFinal}

	for i, t := range targets {
		f := unresolved
		if f == nil {
			f = s.askAt(ctx, server, t, shareOf(ctx, others+len(targets)-i))
		}

		if f == nil {
			s.client.preferred.Store(&t)
			return nil
		}

		server.record(ctx, t, f)

		switch {
		case f.class == classLocal || ctx.Err() != nil:
			return f
		case f.class != classFinal:
			out.class = classRetry
		}
		out.retryAfter = max(out.retryAfter, f.retryAfter)
	}

	return out
}

// shareOf returns an equal share of the time until ctx's deadline.
func shareOf(ctx context.Context, n int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(n)
}

// askAt makes one attempt within a share of the time. If a certificate is not valid at the current time, it waits for
// the clock to be set and tries again, once a search.
func (s *search) askAt(ctx context.Context, server *server, t target, share time.Duration) *failure {
	cause := timeoutError{"response", share.Round(time.Millisecond)}
	limited, cancel := context.WithTimeoutCause(ctx, share, cause)
	defer cancel()

	f := s.attempt(limited, t)
	if f == nil || f.class != classDates || ctx.Err() != nil {
		return f
	}

	waitClock := s.client.opts.WaitClock
	if waitClock != nil && !s.isClockWaited {
		s.isClockWaited = true
		deadline, _ := ctx.Deadline()
		s.client.opts.OnRetry(Retry{
			Server: t.url(),
			Why:    f.Why,
			Until:  deadline,
		})

		err := waitClock(ctx)
		if err == nil {
			server.tries++
			return s.askAt(ctx, server, t, share)
		}
		f.Why += "; waiting for the clock to be set: " + quote(err.Error())
	}

	f.class = classFinal
	if f.notYetValid && waitClock == nil {
		f.class = classRetry
	}

	return f
}

// resolve returns the addresses of a server in DNS. A name that cannot be resolved is returned without an address, and
// with the failure. With a proxy the name is the address. The lookup takes at most share.
func (s *search) resolve(ctx context.Context, host string, share time.Duration) ([]target, *failure) {
	name, port, _ := net.SplitHostPort(host)
	if _, err := netip.ParseAddr(name); err == nil || s.proxied {
		return []target{{host, host}}, nil
	}

	limit := min(share, s.client.opts.DialTimeout)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	addresses, err := s.client.opts.LookupHost(ctx, name)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Name: name, Err: "it has no address"}
	}
	if err != nil {
		return []target{{host: host}}, classifyError(err, time.Time{}, "")
	}

	var out []target
	for _, a := range addresses {
		out = append(out, target{host, net.JoinHostPort(a, port)})
	}

	return moveToFront(out, *s.client.preferred.Load()), nil
}

// failed returns the error of all servers: the worst failure, with the reason of each server if there are several.
func (s *search) failed(servers []*server) error {
	var worst *server
	var reasons []string
	tries := 0

	for _, server := range servers {
		if server.failure == nil {
			continue
		}

		if worst == nil || severity(server.failure.Code) > severity(worst.failure.Code) {
			worst = server
		}

		tries = max(tries, server.tries)
		reasons = append(reasons, server.at.String()+": "+server.failure.Why)
	}

	f := worst.failure.toFault(s.object)
	f.At.File = worst.at.String()

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

// moveToFront returns the list with first, if it contains that, before all others.
func moveToFront[T comparable](list []T, first T) []T {
	i := slices.Index(list, first)
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
