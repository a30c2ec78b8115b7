package rules

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	tlsSource    = "cmd/kubelet/app/server.go, InitializeTLS"
	serverSource = "pkg/kubelet/server/server.go, ListenAndServeKubeletServer"
)

// servingRules returns the rules about the kubelet's servers.
func servingRules() []Rule {
	return []Rule{
		{
			ID:      "config-tls-ciphers",
			Lists:   true,
			Summary: "unknown cipher suites or curves, and cipher suites without the one that HTTP/2 needs",
			Source:  tlsSource + "; k8s.io/component-base/cli/flag",
			check:   checkTLS,
		},
		{
			ID:       "config-tls-half",
			Summary:  "a `tlsCertFile` without a `tlsPrivateKeyFile`, or the reverse",
			Effect:   Ignores,
			Severity: Error,
			Source:   tlsSource + "; pkg/kubelet/kubelet.go, NewMainKubelet",
			check:    checkCertificatePair,
		},
		{
			ID:      "config-listen-address",
			Summary: "an `address` to listen on that is not an IP address",
			Source:  serverSource,
			check:   checkListenAddress,
		},
		{
			ID:      "config-listeners",
			Summary: "two of `port`, `readOnlyPort` and `healthzPort` that are equal, on overlapping addresses",
			Source:  serverSource + "; cmd/kubelet/app/server.go, run",
			check:   checkPorts,
		},
		{
			ID:      "config-endpoint",
			Summary: "an endpoint of the runtime or of images that is neither a path nor a unix URL",
			Since:   27,
			Source:  "k8s.io/cri-client/pkg/util/util_unix.go, GetAddressAndDialer",
			check:   checkEndpoints,
		},
		{
			ID:      "config-hidden-metrics",
			Lists:   true,
			Summary: "hidden metrics of another version than the previous one",
			Source:  "k8s.io/component-base/metrics/options.go, ValidateShowHiddenMetricsVersion",
			check:   checkHiddenMetrics,
		},
	}
}

// cipherSuites are those of crypto/tls, including insecure ones, and two old names that Kubernetes adds.
var cipherSuites = []string{
	"TLS_AES_128_GCM_SHA256",
	"TLS_AES_256_GCM_SHA384",
	"TLS_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
	"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
	"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
	"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
	"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
	"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	"TLS_ECDHE_RSA_WITH_RC4_128_SHA",
	"TLS_RSA_WITH_3DES_EDE_CBC_SHA",
	"TLS_RSA_WITH_AES_128_CBC_SHA",
	"TLS_RSA_WITH_AES_128_CBC_SHA256",
	"TLS_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_RSA_WITH_AES_256_CBC_SHA",
	"TLS_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_RSA_WITH_RC4_128_SHA",
}

// http2Suites are those of which HTTP/2 needs one.
var http2Suites = []string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
}

// curves are the numbers of the curves of crypto/tls.
var curves = []int64{23, 24, 25, 29, 4587, 4588, 4589}

func checkTLS(c *checker) {
	c.checkCipherSuites()
	c.startFinding()
	c.checkCurves()
}

func (c *checker) checkCipherSuites() {
	hasHTTP2, hasSuites := false, false
	for i, name := range c.textsAt("tlsCipherSuites") {
		hasSuites = true
		hasHTTP2 = hasHTTP2 || slices.Contains(http2Suites, name)
		if !slices.Contains(cipherSuites, name) {
			c.reportElement("tlsCipherSuites", i, suggest(name, cipherSuites),
				"Cipher suite %s not supported or doesn't exist", name)
		}
	}
	if hasSuites && !hasHTTP2 && c.textAt("tlsMinVersion") != "VersionTLS13" {
		c.reportField("tlsCipherSuites", "add TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher")
	}
}

func (c *checker) checkCurves() {
	const field = "tlsCurvePreferences"
	var seen []int64
	for i, v := range c.listAt(field) {
		n, _ := parseNumber(v)
		switch {
		case slices.Contains(seen, n):
			c.reportElement(field, i, "remove the duplicate", "duplicate curve preference %d", n)
		case n <= 0 || n > 65535:
			c.reportElement(field, i, "", "curve preference %d is out of range (must be 1-65535)", n)
		case !slices.Contains(curves, n):
			c.reportElement(field, i,
				"29 is X25519, 23 to 25 are the NIST curves, 4587 to 4589 those with ML-KEM",
				"curve preference %d is not supported by the current Go version", n)
		}
		seen = append(seen, n)
	}
}

func checkCertificatePair(c *checker) {
	set, missing := "tlsCertFile", "tlsPrivateKeyFile"
	if !c.hasText(set) {
		set, missing = missing, set
	}
	if c.hasText(set) && !c.hasText(missing) && !c.isTrue("serverTLSBootstrap") {
		c.reportField(set, "set both or none",
			"%s is set without %s: the kubelet runs without a certificate, and every connection to its API fails",
			set, missing)
	}
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
	address, _ := netip.ParseAddr(cmp.Or(c.textAt("address"), "0.0.0.0"))
	port := c.numberOr("port", 10250)
	readOnly, _ := c.numberAt("readOnlyPort")

	var listeners []Listener
	if c.boolAt("enableServer", true) {
		listeners = append(listeners, Listener{"port", port, address})
	}
	if readOnly > 0 {
		listeners = append(listeners, Listener{"readOnlyPort", readOnly, address})
	}

	return listeners
}

// listeners returns where the kubelet serves its API, and then its health.
func (c *checker) listeners() []Listener {
	listeners := c.apiListeners()
	port, isSet := c.numberAt("healthzPort")
	if !isSet {
		port = 10248
	}
	if port > 0 {
		address, _ := netip.ParseAddr(cmp.Or(c.textAt("healthzBindAddress"), "127.0.0.1"))
		listeners = append(listeners, Listener{"healthzPort", port, address})
	}

	return listeners
}

// checkPorts reports two listeners on one port. The second one stops the kubelet, or retries to serve health forever.
func checkPorts(c *checker) {
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
			c.reportField(
				field,
				"use another port; 0 disables readOnlyPort and healthzPort",
				"listen tcp %s: bind: address already in use: %s and %s are both %d",
				first,
				first.Field,
				second.Field,
				first.Port,
			)

			return
		}
	}
}

func checkListenAddress(c *checker) {
	isServing := len(c.apiListeners()) > 0
	c.startFinding() // a part of a configuration rarely disables the server elsewhere
	address := c.textAt("address")
	if isServing && address != "" && !isAddress(address) {
		c.reportField("address", "write an IP address of this machine, or 0.0.0.0",
			"listen tcp: lookup <nil>: no such host (%q is not an IP address)", address)
	}
}

// isAddress reports whether the kubelet accepts an IP address: without a zone, and with leading zeros, as
// k8s.io/utils/net, ParseIPSloppy, does.
func isAddress(text string) bool {
	if parts := strings.Split(text, "."); len(parts) == 4 {
		for i, part := range parts {
			if trimmed := strings.TrimLeft(part, "0"); trimmed != part {
				parts[i] = cmp.Or(trimmed, "0")
			}
		}
		text = strings.Join(parts, ".")
	}
	address, err := netip.ParseAddr(text)

	return err == nil && address.Zone() == ""
}

func checkEndpoints(c *checker) {
	const hint = "write unix:///run/containerd/containerd.sock, or the path of the runtime's socket"
	for _, field := range []string{"containerRuntimeEndpoint", "imageServiceEndpoint"} {
		c.startFinding()
		endpoint := c.textAt(field)
		scheme, _, isURL := strings.Cut(endpoint, "://")
		isPath := strings.HasPrefix(endpoint, "/") || strings.Contains(endpoint, ":")
		switch {
		case isURL && scheme == "tcp":
			c.reportField(field, hint, "only support unix socket endpoint")
		case isURL && scheme != "unix":
			c.reportField(field, hint, "protocol %q not supported", scheme)
		case endpoint != "" && !isPath:
			c.reportField(field, hint, "validate CRI v1 runtime API for endpoint %q: it has no path",
				endpoint)
		}
	}
}

func checkHiddenMetrics(c *checker) {
	const field = "showHiddenMetricsForVersion"
	previous := "1." + strconv.Itoa(c.minor-1)
	if version := c.textAt(field); version != "" && version != previous {
		c.variesByVersion = true
		c.reportField(field, "remove it",
			"invalid showHiddenMetricsForVersion: must be omitted or have the "+
				"value '%s'; "+
				"only the previous minor version is allowed", previous)
	}
}
