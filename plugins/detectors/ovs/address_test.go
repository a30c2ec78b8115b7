package ovs_test

import (
	"context"
	"testing"
	"time"

	"github.com/prelet/prelet/plugins/detectors/ovs"
)

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func TestAddress(t *testing.T) {
	for devargs, want := range map[string]string{
		"0000:5e:00.0": "0000:5e:00.0", "5e:00.1": "0000:5e:00.1", "0000:5E:00.0,dv_flow_en=1": "0000:5e:00.0", "pci:0000:5e:00.0": "0000:5e:00.0",
		"0000:5e:00.0,representor=[0]": "", "class=eth,mac=00:11:22:33:44:55": "", "net_af_xdp0,iface=eth0": "", "": "", "0000:5e:00.9": "", "00:5e:00.0": "",
		"vdev:eth_af_packet0": "",
	} {
		got := ""
		if p := ovs.Address(devargs); p != nil {
			got = *p
		}
		if got != want {
			t.Errorf("%q: %q, want %q", devargs, got, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("0000:5e:00.0,representor=[0]")
	f.Fuzz(func(t *testing.T, s string) {
		if p := ovs.Address(s); p != nil && len(*p) != len("0000:5e:00.0") {
			t.Errorf("parseAddress(%q): got %q, want a canonical address or nil", s, *p)
		}
	})
}
