// Package server is what a site may call an API server, the same where it is written and where it is asked. It touches
// nothing.
package server

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Parse reads an API server as sites write it: host:port, or an https URL, whose port is 443 unless given. The result is
// always host:port, with the host in lower case, and parses to itself.
func Parse(s string) (address string, err error) {
	bad := func(format string, args ...any) (string, error) {
		return "", fmt.Errorf("%q: "+format, append([]any{Redact(s)}, args...)...)
	}
	if s == "" {
		return "", errors.New("empty; write host:port or https://host:port")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return bad("a space, a control character or one outside ASCII; write host:port or https://host:port")
	}
	rest, port := s, ""
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		switch strings.ToLower(scheme) {
		case "https":
			rest, port = after, "443"
		case "http":
			return bad("http is refused, because nobody could tell who answers; write https://")
		default:
			return bad("scheme %q is not https", scheme)
		}
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		if rest[i:] != "/" {
			return bad("a path, query or fragment (%q) is refused: an API server is a host and a port", rest[i:])
		}
		rest = rest[:i]
	}
	if strings.Contains(rest, "@") {
		return bad("a user name or password is refused; the token belongs in a credential")
	}
	host := rest
	switch {
	case strings.HasPrefix(rest, "["):
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return bad("no ] after the IPv6 address")
		}
		tail := rest[end+1:]
		host = rest[1:end]
		if a, err := netip.ParseAddr(host); err != nil || !a.Is6() || a.Zone() != "" {
			return bad("%q is no IPv6 address (zones are refused: no certificate names them)", host)
		}
		if tail != "" {
			if tail[0] != ':' {
				return bad("%q after the address is no port", tail)
			}
			port = tail[1:]
		}
	case strings.Count(rest, ":") > 1:
		return bad("an IPv6 address stands in brackets: [2001:db8::1]:6443")
	default:
		if h, p, ok := strings.Cut(rest, ":"); ok {
			host, port = h, p
		}
		if err := checkHost(host); err != nil {
			return bad("%v", err)
		}
	}
	if port == "" {
		if strings.HasSuffix(rest, ":") {
			return bad("the port after the colon is missing")
		}
		return bad("no port; write %s:6443, or https://%s for port 443", rest, rest)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '+' {
		return bad("port %q is not between 1 and 65535", port)
	}
	if host = strings.ToLower(host); strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.FormatUint(n, 10), nil
}

func checkHost(h string) error {
	if h == "" {
		return errors.New("no host")
	}
	if _, err := netip.ParseAddr(h); err == nil {
		return nil
	}
	if len(h) > 253 {
		return errors.New("a host name has at most 253 characters")
	}
	labels := strings.Split(strings.TrimSuffix(h, "."), ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.ContainsFunc(l, notHostRune) {
			return fmt.Errorf("%q is no host name or IP address", h)
		}
	}
	if last := labels[len(labels)-1]; !strings.ContainsFunc(last, func(r rune) bool { return r < '0' || r > '9' }) {
		return fmt.Errorf("%q is no IP address", h) // 10.0.0.300, or 1.2.3
	}
	return nil
}

func notHostRune(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

// Redact keeps a password that somebody put into a URL out of the message that refuses it.
func Redact(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	if i := strings.Index(s, "://"); i >= 0 && i < at {
		return s[:i+3] + "…" + s[at:]
	}
	return "…" + s[at:]
}
