// Package apiaddress parses the addresses of API servers as sites write them. The language checks a site with Parse,
// and the cluster's client connects to its result, so that both accept the same. The package reads and writes
// nothing.
package apiaddress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Parse parses an API server: host:port, or an https URL, whose default port is 443. The result is always
// host:port with the host in lower case, and Parse accepts it.
func Parse(s string) (address string, err error) {
	if s == "" {
		return "", errors.New("empty; write host:port or https://host:port")
	}

	host, port, err := split(s)
	if err != nil {
		return "", fmt.Errorf("%q: %w", Redact(s), err)
	}

	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}

	return strings.ToLower(host) + ":" + strconv.FormatUint(port, 10), nil
}

// CheckAuthority checks the part of a URL between the scheme and the path: a host, and a port if there is one. Its
// error does not repeat a user name or password.
func CheckAuthority(s string) error {
	_, _, err := split("https://" + s)

	return err
}

// errAddress is the error for a text that is not a URL, which may contain a password.
var errAddress = errors.New(
	"invalid address: write host:port or https://host:port; an IPv6 address needs brackets and has no zone",
)

// split returns the host, without brackets, and the port of an API server.
func split(s string) (host string, port uint64, err error) {
	isRefused := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if strings.ContainsFunc(s, isRefused) {
		return "", 0, errors.New(
			"contains a space, a control character or a character outside ASCII; write host:port or https://host:port",
		)
	}

	text := s
	if !strings.Contains(s, "://") {
		text = "//" + s
	}
	u, err := url.Parse(text)
	switch {
	case strings.Contains(s, "@"):
		return "", 0, errors.New("a user name or password is refused, because every recording contains the site; " +
			"the token belongs in a credential")
	case err != nil, strings.Count(u.Host, ":") > 1 && u.Host[0] != '[':
		return "", 0, errAddress
	case u.Scheme == "http":
		return "", 0, errors.New("http is refused, because it does not prove who the server is; write https://")
	case u.Scheme != "" && u.Scheme != "https":
		return "", 0, fmt.Errorf("scheme %q is not https", u.Scheme)
	case u.Path != "" && u.Path != "/", strings.ContainsAny(s, "?#"):
		return "", 0, errors.New("a path, query or fragment is refused: an API server is a host and a port")
	case strings.HasSuffix(u.Host, ":"):
		return "", 0, errors.New("the port after the colon is missing")
	}

	number := u.Port()
	if number == "" && u.Scheme == "" {
		return "", 0, fmt.Errorf("no port; write %s:6443, or https://%s for port 443", u.Host, u.Host)
	}
	port, err = strconv.ParseUint(cmp.Or(number, "443"), 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("port %q is not between 1 and 65535", number)
	}

	return u.Hostname(), port, checkHost(u.Hostname())
}

// checkHost accepts IP addresses, and the host names of URLs.
func checkHost(host string) error {
	if host == "" {
		return errors.New("no host")
	}

	if a, err := netip.ParseAddr(host); err == nil && a.Zone() == "" {
		return checkUnicast(a)
	}

	if len(host) > 253 {
		return errors.New("a host name has at most 253 characters")
	}

	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if !isHostLabel(label) {
			return fmt.Errorf("invalid host name or IP address %q", host)
		}
	}

	// 10.0.0.300, or 1.2.3
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("invalid IP address %q", host)
	}

	return nil
}

// checkUnicast refuses addresses that no server can have.
func checkUnicast(a netip.Addr) error {
	a = a.Unmap()
	switch {
	case a.IsUnspecified():
		return fmt.Errorf("%s means all addresses of a machine, and not one of a server", a)
	case a.IsMulticast():
		return fmt.Errorf("%s is a multicast address", a)
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%s is the broadcast address", a)
	}

	return nil
}

func isHostLabel(label string) bool {
	if label == "" || len(label) > 63 {
		return false
	}

	return strings.Trim(label, "-") == label && !strings.ContainsFunc(label, isNotHostRune)
}

func isNotHostRune(r rune) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

	return !strings.ContainsRune(allowed, r)
}

// Redact removes the user name, password, query and fragment of a URL, for messages: each may be a secret.
func Redact(s string) string {
	at := strings.LastIndexByte(s, '@')
	if i := strings.IndexAny(s[max(at, 0):], "?#"); i >= 0 {
		s = s[:max(at, 0)+i+1] + "…"
	}
	if at < 0 {
		return s
	}

	scheme, _, hasScheme := strings.Cut(s[:at], "://")
	if hasScheme {
		scheme += "://"
	} else {
		scheme = ""
	}

	return scheme + "…" + s[at:]
}
