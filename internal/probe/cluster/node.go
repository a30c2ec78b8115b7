package cluster

import (
	"context"
	"errors"
	"net/http"
)

// FetchNode asks with the credentials of a request for the Node object of its Name. known is false where the server
// says that there is none, or does not let this credential see it: why has its words then, "" for a plain "not found".
// A 401 is not waited for: whoever asks goes on without.
func (c *Client) FetchNode(ctx context.Context, req ObjectRequest) (body []byte, known bool, why string, err error) {
	object := "node " + quote(req.Name)
	creds, servers, proxied, err := c.credentials(req)
	if err != nil {
		var f *failure
		if errors.As(err, &f) {
			return nil, false, "", f.about(object)
		}
		return nil, false, "", invalid(object, "Correct the cluster block of the site", "%v", err)
	}

	read := func(ctx context.Context, t target, cred credential) *failure {
		body, known, why = nil, false, ""
		config, f := cred.identified(ctx)
		if f != nil {
			return f
		}
		r, f := c.getReady(ctx, t, config, "/api/v1/nodes/"+req.Name)
		if f != nil {
			return f
		}
		switch s, isStatus := statusOf(r); {
		case r.status == http.StatusOK:
			body, known = r.body, true
			return nil
		case r.isStarting():
		case r.status == http.StatusNotFound && isStatus && s.Reason == "NotFound":
			return nil
		case r.status == http.StatusForbidden, r.status == http.StatusNotFound:
			why = describeStatus(r)
			return nil
		}
		f = classifyStatus(r)
		if r.status == http.StatusUnauthorized {
			f.class = final
		}
		return f
	}
	s := search{client: c, servers: servers, proxied: proxied, object: object, attempt: withEach(creds, read)}
	if err := s.try(ctx); err != nil {
		return nil, false, "", err
	}

	return body, known, why, nil
}
