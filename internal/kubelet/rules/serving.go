package rules

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// suites are the names of cipher suites without TLS_, by what comes before _WITH_; those of TLS 1.3 have nothing there.
// They are crypto/tls's, insecure ones included, and two of old that Kubernetes adds.
const suites = `RSA RC4_128_SHA 3DES_EDE_CBC_SHA AES_128_CBC_SHA AES_256_CBC_SHA AES_128_CBC_SHA256 AES_128_GCM_SHA256 AES_256_GCM_SHA384
ECDHE_ECDSA RC4_128_SHA AES_128_CBC_SHA AES_256_CBC_SHA AES_128_CBC_SHA256 AES_128_GCM_SHA256 AES_256_GCM_SHA384 CHACHA20_POLY1305_SHA256 CHACHA20_POLY1305
ECDHE_RSA RC4_128_SHA 3DES_EDE_CBC_SHA AES_128_CBC_SHA AES_256_CBC_SHA AES_128_CBC_SHA256 AES_128_GCM_SHA256 AES_256_GCM_SHA384 CHACHA20_POLY1305_SHA256 CHACHA20_POLY1305
- AES_128_GCM_SHA256 AES_256_GCM_SHA384 CHACHA20_POLY1305_SHA256`

// cipherSuites lists them.
func cipherSuites() (out []string) {
	for line := range strings.Lines(suites) {
		f := strings.Fields(line)
		for _, cipher := range f[1:] {
			out = append(out, strings.Replace("TLS_"+f[0]+"_WITH_"+cipher, "-_WITH_", "", 1))
		}
	}
	return out
}

// curves are the numbers of those that crypto/tls knows.
func curves() []int64 { return []int64{23, 24, 25, 29, 4587, 4588, 4589} }

// listener is where the kubelet listens: the field of its port, and what is in effect.
type listener struct {
	field   string
	port    int64
	address netip.Addr
}

// listeners are what the kubelet serves its API on. The port that is read-only is open without enableServer too.
func (l *look) listeners() (out []listener) {
	address := l.text("address")
	if address == "" {
		address = "0.0.0.0"
	}
	a, _ := netip.ParseAddr(address) // what is none is another rule's
	port, set := l.number("port")
	if !set || port == 0 {
		port = 10250
	}
	if l.boolean("enableServer", true) {
		out = append(out, listener{"port", port, a})
	}
	if n, _ := l.number("readOnlyPort"); n > 0 {
		out = append(out, listener{"readOnlyPort", n, a})
	}

	return out
}

// samePort minds two listeners on one port. The one that comes second ends the kubelet, or for ever tries to serve its health.
func (l *look) samePort() {
	all := l.listeners()
	health, set := l.number("healthzPort")
	if !set {
		health = 10248
	}
	if health > 0 {
		address := l.text("healthzBindAddress")
		if address == "" {
			address = "127.0.0.1"
		}
		if a, err := netip.ParseAddr(address); err == nil {
			all = append(all, listener{"healthzPort", health, a})
		}
	}
	for i, one := range all {
		for _, other := range all[:i] {
			meet := one.address == other.address || one.address.IsUnspecified() || other.address.IsUnspecified()
			if one.port != other.port || !meet || !one.address.IsValid() || !other.address.IsValid() {
				continue
			}
			at := one.field
			if l.doc[at] == nil { // the default
				at = other.field
			}
			l.field(at, "give each a port of its own; 0 turns readOnlyPort and healthzPort off",
				"listen tcp %s: bind: address already in use: %s and %s are both %d", netip.AddrPortFrom(other.address, uint16(one.port)), other.field, one.field, one.port)
			return
		}
	}
}

// isAddress says whether the kubelet takes a text for an IP address: without a zone, and with zeros in front of a number,
// as k8s.io/utils/net, ParseIPSloppy, does.
func isAddress(text string) bool {
	if parts := strings.Split(text, "."); len(parts) == 4 {
		for i, p := range parts {
			parts[i] = strings.TrimLeft(p[:max(0, len(p)-1)], "0") + p[max(0, len(p)-1):]
		}
		text = strings.Join(parts, ".")
	}
	a, err := netip.ParseAddr(text)
	return err == nil && a.Zone() == ""
}

// servingRules mind what the kubelet serves its own API with.
func servingRules() []Rule {
	const server = "cmd/kubelet/app/server.go, InitializeTLS; k8s.io/component-base/cli/flag"
	return []Rule{
		{ID: "config-tls-ciphers", Minds: "cipher suites or curves that there are not, and suites without the one that HTTP/2 needs", Does: Exits, Severity: Error, Source: server, check: func(l *look) {
			required := false
			list := l.list("tlsCipherSuites") // of which all is known, or nothing
			for i, v := range list {
				name, ok := v.(string)
				required = required || strings.HasPrefix(name, "TLS_ECDHE_") && strings.HasSuffix(name, "_WITH_AES_128_GCM_SHA256")
				if all := cipherSuites(); ok && !slices.Contains(all, name) {
					l.at([]string{"tlsCipherSuites", strconv.Itoa(i)}, choose1(name, all), "Cipher suite %s not supported or doesn't exist", name)
				}
			}
			if len(list) > 0 && !required && l.text("tlsMinVersion") != "VersionTLS13" {
				l.field("tlsCipherSuites", "add TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher")
			}
			l.fresh()
			var seen []int64
			for i, v := range l.list("tlsCurvePreferences") {
				path := []string{"tlsCurvePreferences", strconv.Itoa(i)}
				n, _ := l.numberOf(v)
				switch {
				case slices.Contains(seen, n):
					l.at(path, "name it once", "duplicate curve preference %d", n)
				case n <= 0 || n > 65535:
					l.at(path, "", "curve preference %d is out of range (must be 1-65535)", n)
				case !slices.Contains(curves(), n):
					l.at(path, "29 is X25519, 23 to 25 are the NIST curves, 4587 to 4589 those with ML-KEM", "curve preference %d is not supported by the current Go version", n)
				}
				seen = append(seen, n)
			}
		}},
		{ID: "config-tls-half", Minds: "a `tlsCertFile` without a `tlsPrivateKeyFile`, or the other way round", Does: Swallows, Severity: Error, Source: "cmd/kubelet/app/server.go, InitializeTLS; pkg/kubelet/kubelet.go, NewMainKubelet", check: func(l *look) {
			cert, key := l.text("tlsCertFile"), l.text("tlsPrivateKeyFile")
			if (cert == "") == (key == "") || l.boolean("serverTLSBootstrap", false) {
				return
			}
			has, lacks := "tlsCertFile", "tlsPrivateKeyFile"
			if cert == "" {
				has, lacks = lacks, has
			}
			l.field(has, "name both, or none", "%s is set without %s: the kubelet runs without a certificate, and every connection to its API fails", has, lacks)
		}},
		{ID: "config-listen-address", Minds: "an `address` to listen on that is none", Does: Exits, Severity: Error, Alone: true, Source: "pkg/kubelet/server/server.go, ListenAndServeKubeletServer", check: func(l *look) {
			if a := l.text("address"); a != "" && len(l.listeners()) > 0 {
				if !isAddress(a) {
					l.field("address", "write an IP address of this machine, or 0.0.0.0", "listen tcp: lookup <nil>: no such host (%q is no address)", a)
				}
			}
		}},
		{ID: "config-listeners", Minds: "two of `port`, `readOnlyPort` and `healthzPort` that are the same, on addresses that meet", Does: Exits, Severity: Error, Source: "pkg/kubelet/server/server.go, ListenAndServeKubeletServer; cmd/kubelet/app/server.go, run", check: (*look).samePort},
		{ID: "config-endpoint", Minds: "an endpoint of the runtime or of images that is neither a socket's path nor of unix", Since: 27, Does: Exits, Severity: Error, Alone: true, Source: "k8s.io/cri-client/pkg/util/util_unix.go, GetAddressAndDialer", check: func(l *look) {
			for _, field := range []string{"containerRuntimeEndpoint", "imageServiceEndpoint"} {
				e, hint := l.text(field), "write unix:///run/containerd/containerd.sock, or where the runtime's socket is"
				switch scheme, _, ok := strings.Cut(e, "://"); {
				case ok && scheme == "tcp":
					l.field(field, hint, "only support unix socket endpoint")
				case ok && scheme != "unix":
					l.field(field, hint, "protocol %q not supported", scheme)
				case !ok && e != "" && !strings.HasPrefix(e, "/") && !strings.Contains(e, ":"):
					l.field(field, hint, "validate CRI v1 runtime API for endpoint %q: it has no path", e)
				}
			}
		}},
		{ID: "config-hidden-metrics", Minds: "hidden metrics of another version than the one before", Does: Exits, Severity: Error, Alone: true, Source: "k8s.io/component-base/metrics/options.go, ValidateShowHiddenMetricsVersion", check: func(l *look) {
			if v, want := l.text("showHiddenMetricsForVersion"), "1."+strconv.Itoa(l.minor-1); v != "" && v != want {
				l.vague([]string{"showHiddenMetricsForVersion"}, "take it out", "invalid showHiddenMetricsForVersion: must be omitted or have the value '%s'; only the previous minor version is allowed", want)
			}
		}},
	}
}
