package rules

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/model/texts"
)

// lacksHTTP2 reports cipher suites without one of the two of which HTTP/2 needs one.
func lacksHTTP2(v value) bool {
	suites := v.listOf("tlsCipherSuites")
	hasOne := slices.Contains(suites, any("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")) ||
		slices.Contains(suites, any("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"))

	return len(suites) > 0 && !hasOne && v.textOf("tlsMinVersion") != "VersionTLS13"
}

// Listener is a port that the kubelet listens on.
type Listener struct {
	Field   string // port | readOnlyPort | healthzPort
	Port    int64
	Address netip.Addr // invalid if the configuration's is; config-listen-address reports it
}

// Listeners returns the ports that a kubelet listens on.
func Listeners(s Subject) []Listener { return newChecker(s).listeners() }

// String returns its address as the kubelet prints it.
func (l Listener) String() string { return netip.AddrPortFrom(l.Address, uint16(l.Port)).String() }

func (l Listener) overlaps(other Listener) bool {
	isAny := l.Address.IsUnspecified() || other.Address.IsUnspecified()
	isValid := l.Address.IsValid() && other.Address.IsValid()

	return isValid && l.Port == other.Port && (isAny || l.Address == other.Address)
}

// IsTakenBy reports whether the kubelet cannot listen because of a socket of another process. The kubelet's 0.0.0.0 and
// :: are both families: net, favoriteAddrFamily. Another process's :: is taken for both too, because /proc does not
// show IPV6_V6ONLY.
func (l Listener) IsTakenBy(at netip.AddrPort) bool {
	own, other := l.Address.Unmap(), at.Addr().Unmap()
	if !own.IsValid() || !other.IsValid() || l.Port != int64(at.Port()) {
		return false
	}
	isBoth := own.IsUnspecified() || other == netip.IPv6Unspecified()

	return isBoth || own == other || own.Is4() && other.IsUnspecified()
}

// apiListeners returns where the kubelet serves its API. The read-only port is open also with enableServer: false.
func (c *checker) apiListeners() []Listener {
	address, _ := netip.ParseAddr(c.textOf("address"))

	var listeners []Listener
	if c.isOn("enableServer") {
		listeners = append(listeners, Listener{"port", c.positiveOf("port"), address})
	}
	if readOnly := c.numberOf("readOnlyPort"); readOnly > 0 {
		listeners = append(listeners, Listener{"readOnlyPort", readOnly, address})
	}

	return listeners
}

// listeners returns where the kubelet serves its API, and then its health.
func (c *checker) listeners() []Listener {
	listeners := c.apiListeners()
	if port := c.numberOf("healthzPort"); port > 0 {
		address, _ := netip.ParseAddr(c.textOf("healthzBindAddress"))
		listeners = append(listeners, Listener{"healthzPort", port, address})
	}

	return listeners
}

// reportListeners reports two listeners on one port. The second one stops the kubelet, or retries to serve health
// forever.
func reportListeners(c *checker) {
	listeners := c.listeners()
	for i, second := range listeners {
		for _, first := range listeners[:i] {
			if !second.overlaps(first) {
				continue
			}
			field := second.Field
			if c.config[field] == nil {
				field = first.Field
			}
			c.report(field, "use another port; 0 disables readOnlyPort and healthzPort",
				"listen tcp %s: bind: address already in use: %s and %s are both %d", first, first.Field, second.Field,
				first.Port)

			return
		}
	}
}

func isBadListenAddress(v value) bool {
	isServing := len(v.apiListeners()) > 0
	v.startViolation() // a part of a configuration rarely disables the server elsewhere

	return isServing && hasText(v) && !isAddress(v.text())
}

// leadingZeros matches leading zeros of a number in an IPv4 address, which the kubelet ignores: k8s.io/utils/net,
// ParseIPSloppy.
var leadingZeros = texts.LazyRegexp(`\b0+(\d)`)

// isAddress reports whether the kubelet accepts an IP address, which may not have a zone.
func isAddress(text string) bool {
	address, err := netip.ParseAddr(leadingZeros().ReplaceAllString(text, "$1"))

	return err == nil && address.Zone() == ""
}

func isBadEndpoint(v value) bool {
	scheme, _, isURL := strings.Cut(v.text(), "://")
	isPath := strings.HasPrefix(v.text(), "/") || strings.Contains(v.text(), ":")
	switch {
	case isURL && scheme == "tcp":
		return v.because("", "only support unix socket endpoint")
	case isURL && scheme != "unix":
		return v.because("", "protocol %q not supported", scheme)
	case hasText(v) && !isPath:
		return v.because("", `validate CRI v1 runtime API for endpoint "{value}": it has no path`)
	}

	return false
}

func isOldMetrics(v value) bool {
	v.variesByVersion = true
	v.why = "1." + strconv.Itoa(v.minor-1)

	return hasText(v) && v.text() != v.why
}
