package hardware

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
)

// One question to the kernel must give what the standard library gives with one for each interface.
func TestLiveInterfacesAreTheKernels(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatalf("list the interfaces: got error %v, want none", err)
	}
	want := map[string]tape.Interface{}
	for _, i := range all {
		addresses, err := i.Addrs()
		must(t, err)
		face := tape.Interface{IPv4: []string{}, IPv6: []string{}, MTU: &i.MTU}
		for _, a := range addresses {
			prefix := netip.MustParsePrefix(a.String())
			ip := prefix.Addr()
			if !ip.IsLoopback() {
				one := tape.InterfaceAddress{Address: ip.String(), PrefixLength: prefix.Bits()}
				face.Addresses = append(face.Addresses, one)
			}
			switch {
			case ip.IsLoopback():
			case ip.Is4():
				face.IPv4 = append(face.IPv4, ip.String())
			default:
				face.IPv6 = append(face.IPv6, ip.String())
			}
		}
		if mac := i.HardwareAddr.String(); mac != "" {
			face.MAC = &mac
		}
		if len(face.IPv4)+len(face.IPv6) > 0 {
			want[i.Name] = face
		}
	}
	got, err := kernelInterfaces()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoopbackWithAnAddressOfItsOwn(t *testing.T) {
	facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{
		"addresses.json":           `{"lo": ["127.0.0.1/8", "203.0.113.9/32", "::1/128"]}`,
		"sys/class/net/lo/address": "00:00:00:00:00:00",
	})})
	want := map[string]tape.Interface{"lo": {
		IPv4: []string{"203.0.113.9"}, IPv6: []string{}, Addresses: []tape.InterfaceAddress{{Address: "203.0.113.9", PrefixLength: 32}},
	}}
	if diff := cmp.Diff(want, facts.Interfaces); diff != "" {
		t.Error(diff)
	}
}
