package hardware

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKindsOfCores(t *testing.T) {
	const intel = "processor: 0\nflags: fpu\n"
	const arm = "processor: 0\nCPU implementer: 0x41\nFeatures: fp asimd\n"
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"Intel, three kinds": {
			map[string]string{
				"proc/cpuinfo":                  intel,
				"sys/devices/cpu_core/cpus":     "0-1\n",
				"sys/devices/cpu_atom/cpus":     "2\n",
				"sys/devices/cpu_lowpower/cpus": "3\n",
			},
			[]string{"performance", "performance", "efficient", "low-power"},
		},
		"Intel, one kind": {
			map[string]string{"proc/cpuinfo": intel, "sys/devices/cpu/cpus": "0-3\n"},
			[]string{"", "", "", ""},
		},
		"Intel, a list of one": {
			map[string]string{
				"proc/cpuinfo":              intel,
				"sys/devices/cpu_atom/cpus": "x",
				"sys/devices/cpu_core/cpus": "0",
			},
			[]string{"performance", "", "", ""},
		},
		"Arm, little first": {
			capacities(arm, 446, 446, 1024, 1024),
			[]string{"efficient", "efficient", "performance", "performance"},
		},
		"Arm, three clusters": {
			capacities(arm, 260, 850, 850, 1024),
			[]string{"efficient", "performance", "performance", "performance"},
		},
		"Arm, a server whose cores differ by a little": {
			capacities(arm, 1024, 1010, 990, 1024),
			[]string{"", "", "", ""},
		},
		"Arm, one core reports nothing": {capacities(arm, 446, 446, 1024), []string{"", "", "", ""}},
		"x86 reports capacities that are only clocks": {
			capacities(intel, 400, 400, 1024, 1024),
			[]string{"", "", "", ""},
		},
	}
	for name, tt := range tests {
		tt.files["sys/devices/system/cpu/online"] = "0-3"
		facts := detect(t, Options{Tree: tree(t, tt.files)})
		var got []string
		for _, core := range facts.CPU.Cores {
			kind := ""
			if core.Kind != nil {
				kind = *core.Kind
			}
			got = append(got, kind)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: got other facts (-want +got): %s", name, diff)
		}
	}
}

func capacities(cpuinfo string, list ...int) map[string]string {
	files := map[string]string{"proc/cpuinfo": cpuinfo}
	for i, n := range list {
		files["sys/devices/system/cpu/cpu"+strconv.Itoa(i)+"/cpu_capacity"] = strconv.Itoa(n) + "\n"
	}
	return files
}

func TestSMTAndOffline(t *testing.T) {
	const cpu = "sys/devices/system/cpu/"
	yes, no := true, false
	tests := map[string]struct {
		files   map[string]string
		smt     *bool
		offline []int
	}{
		"two threads": {
			map[string]string{
				cpu + "online":  "0-1",
				cpu + "present": "0-1",
				cpu + "cpu0/topology/thread_siblings_list": "0-1",
			},
			&yes,
			[]int{},
		},
		"switched off by the kernel": {
			map[string]string{cpu + "online": "0", cpu + "present": "0-1", cpu + "offline": "1-255",
				cpu + "cpu0/topology/thread_siblings_list": "0", cpu + "smt/active": "0"},
			&no,
			[]int{1},
		},
		"a kernel that reports nothing": {
			map[string]string{cpu + "online": "0-1", cpu + "present": "0-1"},
			nil,
			[]int{},
		},
		"an older kernel, one thread": {
			map[string]string{cpu + "online": "0", cpu + "cpu0/topology/thread_siblings_list": "0"},
			&no,
			[]int{},
		},
		"a recording without the list": {
			map[string]string{
				cpu + "online":                             "-",
				cpu + "cpu0/online":                        "1",
				cpu + "cpu1/online":                        "0",
				cpu + "cpu0/topology/thread_siblings_list": "0",
			},
			&no,
			[]int{1},
		},
	}
	for name, tt := range tests {
		facts := detect(t, Options{Tree: tree(t, tt.files)})
		if value(facts.CPU.SMT) != value(tt.smt) {
			t.Errorf("%s: smt %v, want %v", name, value(facts.CPU.SMT), value(tt.smt))
		}
		if diff := cmp.Diff(tt.offline, facts.CPU.Offline); diff != "" {
			t.Errorf("%s: offline (-want +got): %s", name, diff)
		}
		if tt.smt == nil && why(facts, "cpu.smt") == "" {
			t.Errorf("%s: want a reason for the unknown fact", name)
		}
	}
}
