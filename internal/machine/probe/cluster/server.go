package cluster

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/prelet/prelet/internal/platform/apiaddress"
)

// parseServers parses a list of API servers, which must not be empty, as apiaddress.Parse does, and drops repetitions.
func parseServers(list []string) (hosts []string, err error) {
	if len(list) == 0 {
		return nil, errors.New("no server is given")
	}

	for _, s := range list {
		host, err := apiaddress.Parse(s)
		if err != nil {
			return nil, fmt.Errorf("server %w", err)
		}

		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}

	return hosts, nil
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
