package cluster

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// refusalGrace is how long a refusal is asked about again of which nobody can tell whether it is meant.
const refusalGrace = 15 * time.Second

// silence is how long /readyz is not asked again that was refused over the same line.
const silence = 5 * time.Second

// settle looks twice at a refusal: for some seconds after its start an API server answers everybody with 401 or 403, because it
// does not know its tokens, roles and bindings yet. Its /readyz says so, with 500 until all is loaded. Before the roles are, and
// for good where anonymous users may not ask, /readyz is refused as well; then only time tells. send
// sends the request that is meant, over l.
//
// Who was told that it is not ready asks /readyz alone the next time, over the same line, until it is: a server that starts is asked
// as little as can be.
//
// The word of a server that is not verified yet costs nothing here: it can make us wait, as silence could.
func settle(ctx context.Context, l *line, server *url.URL, send func() (*reply, error)) (*reply, error) {
	r := l.refused
	if r == nil {
		var err error
		if r, err = send(); err != nil || !refusal(r) || !l.reusable {
			return r, err
		}
		if r.doubtful = !l.silent.IsZero() && time.Since(l.silent) < silence; r.doubtful {
			return r, nil
		}
	}
	u := *server
	u.Path = "/readyz"
	ready, err := l.roundTrip(ctx, getRequest(ctx, &u))
	if err != nil {
		return nil, err
	}
	l.refused = nil
	switch {
	case ready.status >= http.StatusInternalServerError || ready.status == http.StatusTooManyRequests:
		r.starting, l.refused = true, r
	case refusal(ready) && !r.starting:
		r.doubtful, l.silent = true, time.Now()
	case l.reusable:
		return send() // it may have become ready in between
	}
	return r, nil
}

func refusal(r *reply) bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden
}
