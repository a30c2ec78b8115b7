package cluster

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/prelet/prelet/internal/platform/apiaddress"
)

// ParseServer parses an API server as apiaddress.Parse does, and returns the URL https://host:port.
func ParseServer(s string) (*url.URL, error) {
	address, err := apiaddress.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("server %w", err)
	}

	return &url.URL{Scheme: "https", Host: address}, nil
}

// parseServers parses a list, which must not be empty, and drops repetitions.
func parseServers(list []string) ([]*url.URL, error) {
	if len(list) == 0 {
		return nil, errors.New("no server is given")
	}

	var out []*url.URL

	for _, s := range list {
		u, err := ParseServer(s)
		if err != nil {
			return nil, err
		}

		isSame := func(earlier *url.URL) bool { return earlier.Host == u.Host }
		if !slices.ContainsFunc(out, isSame) {
			out = append(out, u)
		}
	}

	return out, nil
}

func formatServers(list []*url.URL) []string {
	out := make([]string, len(list))
	for i, u := range list {
		out[i] = u.String()
	}

	return out
}

// ParseProxy parses the URL of a proxy for CONNECT: http or https, with or without user and password. The error does
// not contain the password.
func ParseProxy(s string) (*url.URL, error) {
	name := apiaddress.Redact(s)

	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("proxy_url %q is not a URL", name)
	}

	hasPath := u.Path != "" && u.Path != "/"

	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("proxy_url %q: write http://host:port or https://host:port", name)
	case u.Hostname() == "":
		return nil, fmt.Errorf("proxy_url %q: no host", name)
	case hasPath || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("proxy_url %q: a path, query or fragment is refused", name)
	}

	return u, nil
}
