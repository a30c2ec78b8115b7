package rules

import (
	"net/netip"
	"testing"
)

// TestIsTakenBy: which sockets of other processes are in the way of the kubelet's.
func TestIsTakenBy(t *testing.T) {
	for _, c := range []struct {
		own, other string // the kubelet's address on port 10250
		want       bool
	}{
		{"0.0.0.0", "0.0.0.0:10250", true},
		{"0.0.0.0", "0.0.0.0:10251", false},
		{"0.0.0.0", "[::1]:10250", true}, // Go listens on both families
		{"0.0.0.0", "192.0.2.7:10250", true},
		{"::", "127.0.0.1:10250", true},
		{"127.0.0.1", "0.0.0.0:10250", true},
		{"127.0.0.1", "[::]:10250", true},
		{"127.0.0.1", "[::1]:10250", false},
		{"127.0.0.1", "127.0.0.1:10250", true},
		{"127.0.0.1", "127.0.0.2:10250", false},
		{"127.0.0.1", "[::ffff:127.0.0.1]:10250", true},
		{"::ffff:127.0.0.1", "127.0.0.1:10250", true},
		{"::1", "[::]:10250", true},
		{"::1", "[::1]:10250", true},
		{"::1", "0.0.0.0:10250", false},
		{"::1", "127.0.0.1:10250", false},
		{"", "0.0.0.0:10250", false}, // the configuration's is invalid
	} {
		address, _ := netip.ParseAddr(c.own)
		l := Listener{"port", 10250, address}
		if got := l.IsTakenBy(netip.MustParseAddrPort(c.other)); got != c.want {
			t.Errorf("%q and %s: got taken %t, want %t", c.own, c.other, got, c.want)
		}
	}
	if (Listener{"port", 10250, netip.IPv4Unspecified()}).IsTakenBy(netip.AddrPort{}) {
		t.Error("no address: got taken, want free")
	}
}
