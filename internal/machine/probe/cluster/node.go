package cluster

import (
	"context"
	"net/http"
)

// FetchNode reads the Node object with the Name of the request. exists is false if the server reports that it
// does not exist, or denies this credential to read it; reason is then the server's message, "" for a plain
// NotFound. After a 401 the server is not asked again.
func (c *Client) FetchNode(
	ctx context.Context, req ObjectRequest,
) (body []byte, exists bool, reason string, err error) {
	read := func(ctx context.Context, t target, cred credential) *failure {
		body, exists, reason = nil, false, ""

		r, f := c.getAs(ctx, t, cred, "/api/v1/nodes/"+req.Name)
		if f != nil {
			return f
		}

		switch {
		case r.status == http.StatusOK:
			body, exists = r.body, true
			return nil
		case r.isStarting():
			return classifyStatus(r)
		case isNotFound(r):
			return nil
		case r.status == http.StatusForbidden, r.status == http.StatusNotFound:
			reason = describeStatus(r)
			return nil
		}

		f = classifyStatus(r)
		if r.status == http.StatusUnauthorized {
			f.class = classFinal
		}

		return f
	}

	if err := c.readObject(ctx, req, "node "+quote(req.Name), read); err != nil {
		return nil, false, "", err
	}

	return body, exists, reason, nil
}

// isNotFound reports whether Kubernetes itself reports a missing object, in contrast to a server in front of it.
func isNotFound(r *reply) bool {
	s, _ := parseStatus(r)
	return r.status == http.StatusNotFound && s.Reason == "NotFound"
}
