package rules

import (
	"net/netip"
	"testing"

	cases "github.com/prelet/prelet/internal/testing/table"
)

// TestIsTakenBy: which sockets of other processes are in the way of the kubelet's.
func TestIsTakenBy(t *testing.T) {
	for _, c := range cases.YAML[[]struct {
		Own, Other string // the kubelet's address on port 10250
		Want       bool
	}](t, `
- {own: 0.0.0.0, other: 0.0.0.0:10250, want: true}
- {own: 0.0.0.0, other: 0.0.0.0:10251}
# Go listens on both families
- {own: 0.0.0.0, other: '[::1]:10250', want: true}
- {own: 0.0.0.0, other: 192.0.2.7:10250, want: true}
- {own: '::', other: 127.0.0.1:10250, want: true}
- {own: 127.0.0.1, other: 0.0.0.0:10250, want: true}
- {own: 127.0.0.1, other: '[::]:10250', want: true}
- {own: 127.0.0.1, other: '[::1]:10250'}
- {own: 127.0.0.1, other: 127.0.0.1:10250, want: true}
- {own: 127.0.0.1, other: 127.0.0.2:10250}
- {own: 127.0.0.1, other: '[::ffff:127.0.0.1]:10250', want: true}
- {own: '::ffff:127.0.0.1', other: 127.0.0.1:10250, want: true}
- {own: '::1', other: '[::]:10250', want: true}
- {own: '::1', other: '[::1]:10250', want: true}
- {own: '::1', other: 0.0.0.0:10250}
- {own: '::1', other: 127.0.0.1:10250}
# the configuration's is invalid
- {other: 0.0.0.0:10250}
`) {
		address, _ := netip.ParseAddr(c.Own)
		l := Listener{"port", 10250, address}
		if got := l.IsTakenBy(netip.MustParseAddrPort(c.Other)); got != c.Want {
			t.Errorf("%q and %s: got taken %t, want %t", c.Own, c.Other, got, c.Want)
		}
	}
	if (Listener{"port", 10250, netip.IPv4Unspecified()}).IsTakenBy(netip.AddrPort{}) {
		t.Error("no address: got taken, want free")
	}
}
