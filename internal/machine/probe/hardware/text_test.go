package hardware

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kernelTexts is testdata/texts/kernel.yaml.
type kernelTexts struct {
	CPULists []struct {
		Text string
		Want []int
	} `json:"cpu lists"`
	CPUInfo []struct {
		Name, Text    string
		Vendor, Model *string
		Guest         bool
		Processors    []int
	}
}

func readKernelTexts(t *testing.T) (out kernelTexts) {
	t.Helper()
	readData(t, "texts/kernel.yaml", &out)
	return out
}

func TestParseCPUList(t *testing.T) {
	for _, c := range readKernelTexts(t).CPULists {
		got, err := parseCPUList(c.Text)
		if (err == nil) != (c.Want != nil) || !slices.Equal(got, c.Want) {
			t.Errorf("parseCPUList(%q): got %v, %v; want %v", c.Text, got, err, c.Want)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"0-3,8", "", "0-65535", "1,1", "9-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := parseCPUList(s)
		if err != nil {
			return
		}
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) || len(list) > maxCPU {
			t.Errorf("parseCPUList(%q): got %v, want an error", s, list)
		}
		if len(list) > 0 && (list[0] < 0 || list[len(list)-1] >= maxCPU) {
			t.Errorf("parseCPUList(%q) goes from %d to %d", s, list[0], list[len(list)-1])
		}
	})
}

func TestParseMeminfo(t *testing.T) {
	got := parseMeminfo(
		"MemTotal:       16384 kB\nHugePages_Total:   12\nNode 1 MemFree:  1 kB\nDirectMap: x kB\nMemTotal: 1 " +
			"kB\nBad: -4 kB\nHuge: 9007199254740993 kB\n",
	)
	want := map[string]int64{"MemTotal": 16384 * 1024, "HugePages_Total": 12, "MemFree": 1024}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzParseMeminfo(f *testing.F) {
	f.Add("MemTotal:       16384 kB\nNode 0 MemTotal: 5 kB")
	f.Fuzz(func(t *testing.T, s string) {
		for key, n := range parseMeminfo(s) {
			if n < 0 {
				t.Errorf("%q: got %d, want no negative number", key, n)
			}
		}
	})
}

func TestParseCPUInfo(t *testing.T) {
	for _, c := range readKernelTexts(t).CPUInfo {
		got := parseCPUInfo(c.Text)
		if !reflect.DeepEqual(got.vendor, c.Vendor) || !reflect.DeepEqual(got.model, c.Model) || got.isGuest != c.Guest ||
			!slices.Equal(got.processors, c.Processors) {
			t.Errorf("%s: got vendor %v, model %v, guest %t, processors %v; want %+v",
				c.Name, value(got.vendor), value(got.model), got.isGuest, got.processors, c)
		}
	}
}

func FuzzParseCPUInfo(f *testing.F) {
	f.Add("processor\t: 0\nvendor_id\t: GenuineIntel\nflags : hypervisor")
	f.Fuzz(func(t *testing.T, s string) {
		info := parseCPUInfo(s)
		if info.isGuest && !info.hasFlags || !slices.IsSorted(info.processors) {
			t.Errorf("%+v", info)
		}
		if info.model != nil && !strings.Contains(s, *info.model) {
			t.Errorf("got the model %q, want one that is in the text", *info.model)
		}
	})
}

func TestBinaryQuantity(t *testing.T) {
	for kib, want := range map[int64]string{64: "64Ki", 1024: "1Mi", 2048: "2Mi", 32768: "32Mi", 524288: "512Mi", 1048576: "1Gi", 16777216: "16Gi", 1 << 30: "1Ti", 1 << 40: "1Pi"} {
		if got := binaryQuantity(kib); got != want {
			t.Errorf("%d KiB is %s, want %s", kib, got, want)
		}
	}
}

func TestParseOSRelease(t *testing.T) {
	for text, want := range map[string][4]any{
		"# a comment\nNAME=\"Rocky Linux\"\nID='rocky'\nID_LIKE=\"rhel centos\"\nVERSION_ID=9.4\n" +
			"PRETTY_NAME=\"a \\\"b\\\" \\$c \\\\ \\n\"\n=x\nnoise\n": {"rocky", "9.4", `a "b" $c \ \n`, "[rhel centos]"},
		"ID=\"\"\nVERSION_ID=\n":                             {"linux", nil, "Linux", "[]"},          // an empty value counts as missing
		"\ufeffID=suse\nPRETTY_NAME=\"Caf\xe9 \x00Linux\"\n": {"suse", nil, "Caf\ufffd Linux", "[]"}, // other encodings
		"": {"linux", nil, "Linux", "[]"},
	} {
		release, err := parseOSRelease(text)
		if err != nil {
			t.Fatalf("%q: got %v, want an os-release", text, err)
		}
		os := newOS(release)
		if got := [4]any{value(os.ID), value(os.VersionID), value(os.Name), fmt.Sprint(os.IDLike)}; got != want || os.IDLike == nil {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseOSRelease(f *testing.F) {
	f.Add("ID=\"debian\"\nVERSION_ID='12'\n")
	f.Fuzz(func(t *testing.T, s string) {
		release, err := parseOSRelease(s)
		if err != nil {
			return
		}
		os := newOS(release)
		if os.ID == nil || os.IDLike == nil || os.Name == nil {
			t.Errorf("got %+v, want an ID, a list and a name", os)
		}
	})
}

func TestParsePCIAddress(t *testing.T) {
	for _, good := range []string{"0000:1b:00.0", "20000:01:00.0", "abcd1234:00:1f.7"} {
		if !pciAddress().MatchString(good) {
			t.Errorf("%s: got no address, want one", good)
		}
	}
	for _, bad := range []string{"", "1b:00.0", "0000:1b:00", "0000:1b:00.00", "0000:1b.00:0", "000g:1b:00.0", "123456789:1b:00.0", "0000:1b:00.0 ", ":0000:1b:00.0"} {
		if pciAddress().MatchString(bad) {
			t.Errorf("%q: got an address, want none", bad)
		}
	}
	sorted := []string{"0000:1b:00.0", "0000:1b:00.1", "0000:ab:00.0", "ffff:00:00.0", "10000:01:00.0"}
	if !slices.IsSortedFunc(sorted, compareAddresses) {
		t.Errorf("got another order, want %v", sorted)
	}
}

func FuzzParseAddresses(f *testing.F) {
	f.Add([]byte(`{"eth0": ["198.51.100.7/24", "2001:db8::7/64"]}`))
	f.Add([]byte(`{"../x": ["198.51.100.7/24"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		addresses, err := parseAddresses(data)
		if err != nil {
			return
		}
		for name, prefixes := range addresses {
			if !isInterfaceName(name) || strings.ContainsAny(name, "/\x00") {
				t.Errorf("got the name %q, want a valid one", name)
			}
			for _, p := range prefixes {
				if !p.IsValid() {
					t.Errorf("%s: got %v, want a valid address", name, p)
				}
			}
		}
	})
}
