package hardware

import (
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/tape"
	cases "github.com/prelet/prelet/internal/testing/table"
)

// TestLiveRouteIsTheKernels compares the route with the kernel's own table, and its source with that of a socket.
func TestLiveRouteIsTheKernels(t *testing.T) {
	table, err := os.ReadFile("/proc/net/route")
	must(t, err)
	want := ""
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 7 && fields[1] == "00000000" && fields[7] == "00000000" {
			want = fields[0]
			break
		}
	}

	d := &detection{live: true, ctx: t.Context(), patience: defaultPatience, facts: emptyFacts(), evidence: map[string]string{}}
	must(t, d.readInterfaces())
	got := d.facts.DefaultRoute.IPv4
	if want == "" {
		if got != (tape.Route{}) {
			t.Errorf("without a default route got %v, want none", got)
		}
		return
	}
	if got.Interface == nil || *got.Interface != want {
		t.Fatalf("interface of the default route: got %v, want %s", got.Interface, want)
	}
	socket, err := net.Dial("udp4", "203.0.113.1:9") // sends nothing
	must(t, err)
	defer socket.Close()
	if source := socket.LocalAddr().(*net.UDPAddr).IP.String(); got.Source == nil || *got.Source != source {
		t.Errorf("source of the default route: got %v, want %s", got.Source, source)
	}
}

// attribute returns a netlink attribute.
func attribute(kind uint16, data ...byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(data)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
	for len(b)%unix.RTA_ALIGNTO != 0 {
		b = append(b, 0)
	}

	return b
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}

	return out
}

func TestParseHop(t *testing.T) {
	number := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	index, metric := attribute(unix.RTA_OIF, number(3)...), attribute(unix.RTA_PRIORITY, number(100)...)
	gateway := attribute(unix.RTA_GATEWAY, 10, 4, 0, 1)
	// Two hops of equal cost: struct rtnexthop has its length, flags, weight and interface.
	hopLength := uint16(unix.SizeofRtNexthop + len(gateway))
	first := join(binary.NativeEndian.AppendUint16(nil, hopLength), []byte{0, 0}, number(7), gateway)
	several := attribute(unix.RTA_MULTIPATH, join(first, first)...)
	via := attribute(unix.RTA_VIA, append([]byte{unix.AF_INET6, 0}, net.ParseIP("fe80::1")...)...)

	at := func(s string) *string { return &s }
	for name, tt := range map[string]struct {
		in   []byte
		want hop
		bad  bool
	}{
		"one hop":       {in: join(index, metric, gateway), want: hop{tape.Route{Gateway: at("10.4.0.1")}, 3, 100}},
		"a source":      {in: join(index, attribute(unix.RTA_PREFSRC, 10, 0, 0, 9)), want: hop{tape.Route{Source: at("10.0.0.9")}, 3, 0}},
		"several hops":  {in: join(metric, several), want: hop{tape.Route{Gateway: at("10.4.0.1")}, 7, 100}},
		"over IPv6":     {in: join(index, via), want: hop{tape.Route{Gateway: at("fe80::1")}, 3, 0}},
		"no gateway":    {in: index, want: hop{tape.Route{}, 3, 0}},
		"nothing":       {},
		"bad length":    {in: []byte{200, 0, 4, 0}, bad: true},
		"length zero":   {in: []byte{0, 0, 4, 0}, bad: true},
		"short":         {in: []byte{4, 0}},
		"odd addresses": {in: join(attribute(unix.RTA_GATEWAY, 1, 2), attribute(unix.RTA_VIA, 1), attribute(unix.RTA_MULTIPATH, 1))},
	} {
		got, err := parseHop(tt.in)
		if (err != nil) != tt.bad {
			t.Errorf("%s: got error %v, want one: %v", name, err, tt.bad)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(hop{})); !tt.bad && diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzParseHop(f *testing.F) {
	f.Add(join(attribute(unix.RTA_OIF, 1, 0, 0, 0), attribute(unix.RTA_GATEWAY, 10, 0, 0, 1)))
	f.Add(attribute(unix.RTA_MULTIPATH, join([]byte{16, 0, 0, 0, 1, 0, 0, 0}, attribute(unix.RTA_GATEWAY, 10, 0, 0, 1))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := parseHop(data); err == nil && h.Interface != nil {
			t.Errorf("got interface %q, want it to be named later", *h.Interface)
		}
	})
}

func TestSourceOfARoute(t *testing.T) {
	machine := map[string]string{
		"eth0": `"169.254.1.1/16", "198.51.100.7/25", "203.0.113.7/24", "fe80::7/64", "2001:db8::7/64"`,
		"swp1": `"fe80::8/64"`,
		"lo":   `"203.0.113.9/32"`,
	}
	var lists []string
	for name, list := range machine {
		lists = append(lists, `"`+name+`": [`+list+`]`)
	}
	facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{"addresses.json": "{" + strings.Join(lists, ",") + "}"})})
	d := &detection{facts: facts}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}

	for name, c := range cases.YAML[map[string]struct {
		Interface, Gateway, Source string
		IsIPv6                     bool
		Want                       string
	}](t, `
set: {interface: eth0, source: '192.0.2.1', want: '192.0.2.1'}
the gateway's: {interface: eth0, gateway: '203.0.113.1', want: '203.0.113.7'}
the first: {interface: eth0, want: '198.51.100.7'}
IPv6: {interface: eth0, gateway: fe80::1, isIPv6: true, want: 2001:db8::7}
loopback's: {interface: swp1, gateway: fe80::1, want: '203.0.113.9'}
none: {interface: swp1, isIPv6: true}
without interface: {}
unknown interface: {interface: eth9, isIPv6: true}
nonsensical things: {interface: swp1, gateway: x, isIPv6: true}
`) {
		in := tape.Route{Interface: optional(c.Interface), Gateway: optional(c.Gateway), Source: optional(c.Source)}
		got := d.addSource(in, !c.IsIPv6).Source
		if (got == nil) != (c.Want == "") || got != nil && *got != c.Want {
			t.Errorf("%s: got %v, want %q", name, got, c.Want)
		}
	}
}

func TestRecordedRoute(t *testing.T) {
	facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{
		"routes.json": `{"ipv4": {"interface": "eth0", "gateway": "10.4.0.1", "source": "10.4.7.21"}}`,
	})})
	if r := facts.DefaultRoute.IPv4; r.Source == nil || *r.Source != "10.4.7.21" || facts.Evidence["default_route"] != "/routes.json" {
		t.Errorf("got %v from %q, want source 10.4.7.21 from /routes.json", r, facts.Evidence["default_route"])
	}
	for text, want := range map[string]string{
		"":     "a recorded tree has no routes",
		"[]":   "cannot read it: /routes.json: ",
		"true": "cannot read it: /routes.json: ",
	} {
		files := map[string]string{}
		if text != "" {
			files["routes.json"] = text
		}
		facts := detect(t, ReadOptions{Tree: tree(t, files)})
		if got := why(facts, "default_route"); !strings.HasPrefix(got, want) || *facts.DefaultRoute != (tape.DefaultRoutes{}) {
			t.Errorf("routes.json %q: got %q and %v, want %q and none", text, got, facts.DefaultRoute, want)
		}
	}
}
