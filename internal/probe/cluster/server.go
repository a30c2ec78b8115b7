package cluster

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/prelet/prelet/internal/server"
)

// ParseServer is server.Parse as a URL, https://host:port.
func ParseServer(s string) (*url.URL, error) {
	address, err := server.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("server %w", err)
	}
	return &url.URL{Scheme: "https", Host: address}, nil
}

// parseServers reads a list, refuses an empty one, and drops repetitions.
func parseServers(list []string) ([]*url.URL, error) {
	if len(list) == 0 {
		return nil, errors.New("no server is given")
	}
	var out []*url.URL
	seen := map[string]bool{}
	for _, s := range list {
		u, err := ParseServer(s)
		if err != nil {
			return nil, err
		}
		if !seen[u.Host] {
			seen[u.Host] = true
			out = append(out, u)
		}
	}
	return out, nil
}

func serverStrings(list []*url.URL) []string {
	out := make([]string, len(list))
	for i, u := range list {
		out[i] = u.String()
	}
	return out
}

// ParseProxy reads the URL of a proxy that is asked to CONNECT: http or https, with or without user and password.
// The error shows no password.
func ParseProxy(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("proxy_url %q is not a URL", server.Redact(s))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("proxy_url %q: write http://host:port or https://host:port", server.Redact(s))
	case u.Hostname() == "":
		return nil, fmt.Errorf("proxy_url %q: no host", server.Redact(s))
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("proxy_url %q: a path, query or fragment is refused", server.Redact(s))
	}
	return u, nil
}
