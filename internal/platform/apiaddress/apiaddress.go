// Package apiaddress parses the addresses of API servers as sites write them. The language checks a site with Parse,
// and the cluster's client connects to its result, so that both accept the same. The package reads and writes
// nothing.
package apiaddress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Parse parses an API server: host:port, or an https URL, whose default port is 443. The result is always
// host:port with the host in lower case, and Parse accepts it.
func Parse(s string) (address string, err error) {
	if s == "" {
		return "", errors.New("empty; write host:port or https://host:port")
	}

	host, port, err := parseURL(s)
	if err != nil {
		return "", fmt.Errorf("%q: %w", Redact(s), err)
	}

	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}

	return strings.ToLower(host) + ":" + strconv.FormatUint(port, 10), nil
}

func parseURL(s string) (host string, port uint64, err error) {
	if strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f
	}) {
		return "", 0, errors.New(
			"contains a space, a control character or a character outside ASCII; write host:port or https://host:port",
		)
	}

	rest, defaultPort, err := cutScheme(s)
	if err != nil {
		return "", 0, err
	}

	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		if rest[i:] != "/" {
			return "", 0, errors.New("a path, query or fragment is refused: an API server is a host and a port")
		}

		rest = rest[:i]
	}

	return splitAuthority(rest, defaultPort)
}

// CheckAuthority checks what a URL has between the scheme and the path: a host, and a port if there is one. Its error
// does not repeat a user name or password.
func CheckAuthority(s string) error {
	_, _, err := splitAuthority(s, "443")

	return err
}

func splitAuthority(s, defaultPort string) (host string, port uint64, err error) {
	if strings.Contains(s, "@") {
		return "", 0, errors.New("a user name or password is refused, because every recording contains the site; " +
			"the token belongs in a credential")
	}

	host, portText, err := splitHostPort(s)
	if err != nil {
		return "", 0, err
	}

	if portText == "" {
		portText = defaultPort
	}

	if portText == "" || strings.HasSuffix(s, ":") {
		return "", 0, missingPort(s)
	}

	port, err = strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return "", 0, fmt.Errorf("port %q is not between 1 and 65535", portText)
	}

	return host, port, nil
}

// cutScheme cuts https:// off, and returns the default port, which is "" without a scheme.
func cutScheme(s string) (rest, defaultPort string, err error) {
	scheme, after, hasScheme := strings.Cut(s, "://")
	if !hasScheme {
		return s, "", nil
	}

	switch strings.ToLower(scheme) {
	case "https":
		return after, "443", nil
	case "http":
		return "", "", errors.New(
			"http is refused, because it does not prove who the server is; write https://",
		)
	}

	return "", "", fmt.Errorf("scheme %q is not https", scheme)
}

// splitHostPort checks the host. The port is "" if there is none. IPv6 addresses are returned without brackets.
func splitHostPort(s string) (host, port string, err error) {
	if strings.HasPrefix(s, "[") {
		return splitIPv6(s[1:])
	}

	if strings.Count(s, ":") > 1 {
		return "", "", errors.New("an IPv6 address needs brackets: [2001:db8::1]:6443")
	}

	host, port, _ = strings.Cut(s, ":")

	return host, port, checkHost(host)
}

// splitIPv6 parses "2001:db8::1]:6443".
func splitIPv6(s string) (host, port string, err error) {
	host, after, isClosed := strings.Cut(s, "]")
	if !isClosed {
		return "", "", errors.New("no ] after the IPv6 address")
	}

	a, err := netip.ParseAddr(host)
	if err != nil || !a.Is6() || a.Zone() != "" {
		return "", "", fmt.Errorf("invalid IPv6 address %q (zones are refused: no certificate names them)", host)
	}
	if err := checkUnicast(a); err != nil {
		return "", "", err
	}

	port, hasColon := strings.CutPrefix(after, ":")
	if !hasColon && after != "" {
		return "", "", fmt.Errorf("%q after the address is not a port", after)
	}

	return host, port, nil
}

func missingPort(rest string) error {
	if strings.HasSuffix(rest, ":") {
		return errors.New("the port after the colon is missing")
	}

	return fmt.Errorf("no port; write %s:6443, or https://%s for port 443", rest, rest)
}

// checkHost accepts IP addresses, and the host names of URLs.
func checkHost(host string) error {
	if host == "" {
		return errors.New("no host")
	}

	if a, err := netip.ParseAddr(host); err == nil {
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
