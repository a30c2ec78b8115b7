package hardware

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/model/tape"
)

// TestLibraryAndSysfsAgree takes away one function's modalias, for which ghw 0.26 lists nothing, on machines that it
// lists whole. The facts are the same, with a note.
func TestLibraryAndSysfsAgree(t *testing.T) {
	for _, name := range []string{"dgx-h100", "two-sockets", "legacy-x710", "bare-vm"} {
		machine := recorded(t)[name]
		want := detect(t, ReadOptions{Tree: machine})
		if got, file := want.Evidence["pci[]"], "/"+pciFolder+"/{address}/modalias"; got != file ||
			why(want, "pci") != "" {
			t.Errorf("%s: got evidence %q and the note %q, want %q and none: ghw lists it",
				name, got, why(want, "pci"), file)
		}

		alias := pciFolder + "/" + want.PCI[len(want.PCI)/2].Address + "/modalias"
		got := detect(t, ReadOptions{Tree: faulty{machine, func(name string) error {
			if name == alias {
				return fs.ErrNotExist
			}
			return nil
		}}})
		note := fmt.Sprintf(
			"ghw lists 0 of %d functions (error finding modalias info for device %q), so /%s was read instead",
			len(want.PCI),
			path.Base(path.Dir(alias)),
			pciFolder,
		)
		if why(got, "pci") != note {
			t.Errorf("%s: got the note %q, want %q", name, why(got, "pci"), note)
		}
		if file := "/" + pciFolder + "/{address}/"; got.Evidence["pci[]"] != file {
			t.Errorf("%s: got the evidence %q, want %q", name, got.Evidence["pci[]"], file)
		}

		got.Evidence, want.Evidence = nil, nil
		got.Unknown = slices.DeleteFunc(got.Unknown, func(u tape.UnknownFact) bool { return u.Fact == "pci" })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want the same facts (-ghw +sysfs):\n%s", name, diff)
		}
	}
}

func TestRecordedInterfaces(t *testing.T) {
	facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{
		"addresses.json":             `{"eth0": ["198.51.100.7/24", "2001:db8::7/64", "198.51.100.3/24"], "lo": ["127.0.0.1/8", "::1/128"], "eth1": []}`,
		"sys/class/net/eth0/address": "02:00:5e:00:53:01\n",
		"sys/class/net/eth0/mtu":     "9000\n",
	})})
	mac, mtu := "02:00:5e:00:53:01", 9000
	want := map[string]tape.Interface{
		"eth0": {IPv4: []string{"198.51.100.7", "198.51.100.3"}, IPv6: []string{"2001:db8::7"}, MAC: &mac, MTU: &mtu,
			Addresses: []tape.InterfaceAddress{{Address: "198.51.100.7", PrefixLength: 24}, {Address: "2001:db8::7", PrefixLength: 64}, {Address: "198.51.100.3", PrefixLength: 24}}},
	}
	if diff := cmp.Diff(want, facts.Interfaces); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`[]`, `{"eth0": ["198.51.100.7"]}`, `{"eth0/x": ["198.51.100.7/24"]}`, `{"..": []}`, `{"eth0": [""]}`, `{} {}`, `{"a234567890123456": []}`} {
		facts := detect(t, ReadOptions{Tree: tree(t, map[string]string{"addresses.json": bad})})
		if got := why(facts, "interfaces"); !strings.HasPrefix(got, "cannot read it: /addresses.json: ") {
			t.Errorf("%s: %q", bad, got)
		}
	}
}
