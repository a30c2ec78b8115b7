package functions

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// hasOtherResult reports whether prelet intentionally differs: a prefix length with a leading zero is refused, and a
// network around the IPv4-mapped addresses is in ::/0, which package net denies because its last address is one of them.
func hasOtherResult(prefix, part string) bool {
	_, inner, err := net.ParseCIDR(part)
	if err != nil {
		return strings.Contains(prefix, "/0")
	}
	bits, all := inner.Mask.Size()

	return strings.Contains(prefix+part, "/0") || all == 128 && bits < 96 && inner.Contains(net.ParseIP("::ffff:0:0"))
}

// containsAsOpenTofu is the algorithm of OpenTofu's cidrcontains (internal/plan/lang/funcs/cidr.go) over package net.
func containsAsOpenTofu(prefix, part string) (contains, ok bool) {
	_, containing, err := net.ParseCIDR(prefix)
	if err != nil {
		return false, false
	}
	start := net.ParseIP(part)
	var end net.IP
	if start == nil {
		_, contained, err := net.ParseCIDR(part)
		if err != nil {
			return false, false
		}
		start = contained.IP
		end = make(net.IP, len(start))
		for i := range start {
			end[i] = start[i] | ^contained.Mask[i]
		}
	}
	if (start.To4() == nil) != (containing.IP.To4() == nil) {
		return false, false
	}

	return containing.Contains(start) && (end == nil || containing.Contains(end)), true
}

func FuzzCIDRContains(f *testing.F) {
	for _, s := range [][2]string{
		{"10.0.0.0/8", "10.1.2.3"}, {"10.0.0.0/8", "10.0.0.0/7"}, {"10.0.0.0/8", "10.0.0.0/8"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/9"}, {"::ffff:0:0/96", "1.2.3.4"}, {"::ffff:0:0/90", "1.2.3.4"},
		{"::/0", "::ffff:1.2.3.4"}, {"::/0", "::ffff:1.2.3.4/95"}, {"fd00::/8", "fdff::/16"}, {"fe80::/10", "fe80::1%0"},
		{"10.0.0.0/08", "10.0.0.1"}, {"010.0.0.0/8", "10.0.0.1"}, {"", ""}, {"10.0.0.1", "10.0.0.1"},
	} {
		f.Add(s[0], s[1])
	}

	f.Fuzz(func(t *testing.T, prefix, part string) {
		if hasOtherResult(prefix, part) {
			t.Skip()
		}
		want, isValid := containsAsOpenTofu(prefix, part)
		got, err := cidrContainsFunc().Call([]cty.Value{cty.StringVal(prefix), cty.StringVal(part)})
		if (err == nil) != isValid {
			t.Fatalf("cidrcontains(%q, %q): got error %v, OpenTofu's result is valid: %v", prefix, part, err, isValid)
		}
		if isValid && got.True() != want {
			t.Fatalf("cidrcontains(%q, %q): got %v, want %v as OpenTofu", prefix, part, got.True(), want)
		}
	})
}

// TestCIDRContainsIsTransitive: a network contains each subnet that cidrsubnet makes of it, and that subnet's hosts.
func TestCIDRContainsIsTransitive(t *testing.T) {
	for _, network := range []string{"10.0.0.0/8", "192.0.2.128/25", "0.0.0.0/0", "fd00::/8", "::/0", "2001:db8::/32"} {
		p := netip.MustParsePrefix(network)
		for bits := range 8 {
			src := `[for s in [cidrsubnet(n, bits, pow(2, bits) - 1)] :
				[cidrcontains(n, s), cidrcontains(n, cidrhost(s, -1)), cidrcontains(s, n) == (bits == 0)]]`
			if p.Bits()+bits > p.Addr().BitLen() {
				continue
			}
			got := must(t, src, map[string]cty.Value{"n": cty.StringVal(network), "bits": cty.NumberIntVal(int64(bits))})
			if want := must(t, "[[true, true, true]]", nil); !got.RawEquals(want) {
				t.Errorf("%s and its last subnet with %d more bits: got %#v, want all true", network, bits, got)
			}
		}
	}
}
