package cluster

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// refusalGrace is how long a refusal is asked about again of which nobody can tell whether it is meant.
const refusalGrace = 15 * time.Second

// settle looks twice at a refusal: for some seconds after its start an API server answers everybody with 401 or 403, because it
// does not know its tokens, roles and bindings yet. Its /readyz says so, with 500 until all is loaded. Before the roles are, and
// for good where anonymous users may not ask, /readyz is refused as well; then only time tells. r is the refusal, on l, and
// again sends the same once more.
//
// The word of a server that is not verified yet costs nothing here: it can make us wait, as silence could.
func settle(ctx context.Context, l *line, server *url.URL, r *reply, again func() (*reply, error)) (*reply, error) {
	if !refusal(r) || !l.reusable {
		return r, nil
	}
	u := *server
	u.Path = "/readyz"
	ready, err := l.roundTrip(ctx, getRequest(ctx, &u))
	if err != nil {
		return nil, err
	}
	switch {
	case ready.status >= http.StatusInternalServerError || ready.status == http.StatusTooManyRequests:
		r.starting = true
	case refusal(ready):
		r.doubtful = true
	case l.reusable:
		return again() // it may have become ready in between
	}
	return r, nil
}

func refusal(r *reply) bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden
}
