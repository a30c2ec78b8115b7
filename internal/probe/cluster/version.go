package cluster

import (
	"context"
	"encoding/json"
	"net/http"

	"k8s.io/apimachinery/pkg/version"
)

// FetchVersion returns the version of the first API server that reports one, such as v1.36.3. The request is anonymous:
// with its default roles, Kubernetes answers it. Each server is asked once.
func (c *Client) FetchVersion(
	ctx context.Context,
	endpoint Endpoint,
	ca []byte,
) (string, error) {
	servers, err := parseServers(endpoint.Servers)
	if err != nil {
		return "", err
	}

	config := newConfig(ca, endpoint.ProxyURL)
	config.Insecure = false

	var info version.Info
	attempt := func(ctx context.Context, t target) *failure {
		r, f := c.get(ctx, t, config, "/version")
		if f == nil {
			f = classifyStatus(r)
		}
		if f != nil {
			f.class = classFinal
			return f
		}
		if err := json.Unmarshal(r.body, &info); err != nil || info.GitVersion == "" {
			return failUnusable("%d from /version without a version", http.StatusOK)
		}

		return nil
	}

	if err := c.searchServers(ctx, endpoint, servers, "version", attempt); err != nil {
		return "", err
	}

	return info.GitVersion, nil
}
