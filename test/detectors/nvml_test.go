package detectors

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gpus puts two GPUs in the place of the PCI devices that this machine has, a libnvidia-ml.so.1 that knows them, and
// the package of the detector "nvidia".
func gpus(m *machine) {
	m.T.Helper()
	for _, address := range []string{"0000:17:00.0", "0000:3d:00.0"} {
		for name, text := range map[string]string{"vendor": "0x10de", "device": "0x2330", "subsystem_vendor": "0x10de", "subsystem_device": "0x16c1", "class": "0x030200", "revision": "0xa1",
			"numa_node": "0", "modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00"} {
			m.Put("/srv/pci/"+address+"/"+name, text+"\n", 0o644)
		}
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	list.Dir = "../../plugins"
	dir, err := list.Output()
	m.Must(err)
	triplet, err := exec.Command("gcc", "-print-multiarch").Output()
	m.Must(err)
	libraries := "/usr/lib/" + strings.TrimSpace(string(triplet))
	m.Must(os.MkdirAll(m.Root+libraries, 0o755))
	header := filepath.Join(strings.TrimSpace(string(dir)), "pkg/nvml")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-shared", "-fPIC", "-I", header, "-Wl,-soname,libnvidia-ml.so.1", "-o", m.Root+libraries+"/libnvidia-ml.so.1", "nvml/mock.c").
		CombinedOutput(); err != nil {
		m.T.Fatalf("gcc: got %v; want no error:\n%s", err, out)
	}
	found, _ := filepath.Glob("../../dist/prelet-detector-nvidia_*.deb")
	if len(found) != 1 {
		m.T.Fatal("no package of nvidia in dist/: make packages")
	}
	text, err := os.ReadFile(found[0])
	m.Must(err)
	m.Put("/root/nvidia.deb", string(text), 0o644)
	if out, err := exec.Command("chroot", m.Root, "dpkg", "--install", "/root/nvidia.deb").
		CombinedOutput(); err != nil {
		m.T.Fatalf("dpkg --install: got %v: %s; want no error", err, out)
	}
}

// TestNVML is the package of "nvidia" on a node with GPUs, under the unit: the program opens libnvidia-ml.so.1 in the
// sandbox, and that the driver's device. Without the site's grant, and without the package's drop-in, there is
// plainly less, and the reason.
func TestNVML(t *testing.T) {
	m := boot(t, gpus)
	m.Do("mount", "--bind", "/srv/pci", "/sys/bus/pci/devices")
	number := "" // of a device of the kernel's own that anybody may open, and that the unit may not
	for _, name := range []string{"loop-control", "fuse", "cpu_dma_latency", "vga_arbiter"} {
		text, _ := os.ReadFile("/proc/misc")
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); number == "" && len(f) == 2 && f[1] == name {
				number = f[0]
			}
		}
	}
	m.Do("mknod", "-m", "666", "/dev/nvidiactl", "c", "10", number)
	for _, unit := range []string{"prelet.service", "prelet-apply.service"} {
		if out, _ := m.try("systemctl", "show", unit, "--value", "-p", "DeviceAllow"); !strings.Contains(
			out,
			"char-nvidia* rw",
		) {
			t.Errorf("%s: DeviceAllow=%s; want text with \"char-nvidia* rw\"", unit, out)
		}
	}
	dropIn, err := os.ReadFile(m.Root + "/usr/lib/systemd/system/prelet.service.d/50-detector-nvidia.conf")
	m.Must(err)
	m.beforeTheDriver(string(dropIn))
	const granted = `detector "nvidia" {
  allow {
    devices = ["/dev/nvidiactl", "/dev/nvidia*"]
  }
}`
	refused := func(name, site string) {
		t.Helper()
		s := m.detect(name, site)
		d := s.facts.Facts.Detectors["nvidia"]
		if s.exit != 0 || d.State != "ok" || d.Facts["cuda_version"] != nil ||
			!slices.ContainsFunc(
				d.Warnings,
				func(w string) bool { return strings.Contains(w, "the devices are not granted") },
			) {
			t.Errorf("%s: exit %d: got %+v; want exit 0, State \"ok\" and Facts[cuda_version] nil:\n%s",
				name, s.exit, d, s.messages)
		}
		if g := s.facts.Facts.GPUs; len(g) != 2 {
			t.Errorf("%s: got GPUs %+v, want the two that the kernel shows", name, g)
		}
	}
	refused("ungranted", `detector "nvidia" {}`)
	refused("closed", granted) // DevicePolicy=closed

	// This kernel has no nvidia in /proc/devices: the same line for the group of the device that stands for it.
	m.Put(
		"/etc/systemd/system/detect@.service.d/devices.conf",
		strings.Replace(string(dropIn), "char-nvidia*", "char-misc", 1),
		0o644,
	)
	m.try("systemctl", "daemon-reload")
	s := m.detect("granted", granted)
	d := s.facts.Facts.Detectors["nvidia"]
	t.Logf("%s: %v %v", s.took, d.Facts, d.Labels)
	if s.exit != 0 || d.State != "ok" || len(s.facts.Degraded) > 0 {
		t.Errorf("exit %d: got state %q, degraded %v; want exit 0, ok and no reason:\n%s",
			s.exit, d.State, s.facts.Degraded, s.messages)
	}
	for name, want := range map[string]any{
		"driver_version": "570.86.15", "cuda_version": "12.8", "mig_enabled": true, "gpus_complete": true,
		"fabric_state": "completed", "fabric_health": "healthy", "recovery_action": "none", "persistence_mode": true,
	} {
		if got := d.Facts[name]; got != want {
			t.Errorf("fact %s: got %v, want %v", name, got, want)
		}
	}
	for key, want := range map[string]string{
		"nvidia.com/gpu.memory": "81559", "nvidia.com/gpu.family": "hopper",
		"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
		"nvidia.com/gpu.clique":  "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf.7",
	} {
		if got := d.Labels[key]; got != want {
			t.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}
	if mig, _ := d.Facts["mig_devices"].(map[string]any); mig["1g.10gb"] != 2.0 || mig["3g.40gb"] != 1.0 {
		t.Errorf("MIG devices: got %v; want mig[1g.10gb] 2.0 and mig[3g.40gb] 1.0", d.Facts["mig_devices"])
	}
	if g := s.facts.Facts.GPUs; len(g) != 2 || g[0].Name != "NVIDIA H100 80GB HBM3" || g[0].MemoryGiB == nil ||
		*g[0].MemoryGiB < 79.6 ||
		*g[0].MemoryGiB > 79.7 {
		t.Errorf("GPUs: got %+v; want two, the first NVIDIA H100 80GB HBM3 with 79.6 to 79.7 GiB", g)
	}
	m.recorded(granted)
	m.nothingLeft("nvidia")
}

// beforeTheDriver: the unit may open the driver's devices although no driver was loaded when it started. That nothing
// answers there is another error than that it may not.
func (m *machine) beforeTheDriver(dropIn string) {
	m.T.Helper()
	m.Do("mknod", "-m", "666", "/dev/nvidia15", "c", "195", "15")
	run := []string{
		"systemd-run", "--quiet", "--wait", "--pipe", "-p", "DevicePolicy=closed", "-p", "PrivateDevices=yes",
	}
	if out, _ := m.try(append(run, "cat", "/dev/nvidia15")...); !strings.Contains(out, "No such file") {
		m.T.Errorf("without the drop-in: got %s; want text with \"No such file\"", out)
	}
	for line := range strings.Lines(dropIn) {
		if strings.HasPrefix(line, "DeviceAllow=") || strings.HasPrefix(line, "PrivateDevices=") {
			run = append(run, "-p", strings.TrimSpace(line))
		}
	}
	if out, _ := m.try(append(run, "cat", "/dev/nvidia15")...); !strings.Contains(out, "No such device") {
		m.T.Errorf("with it: got %s; want text with \"No such device\"", out)
	}
	m.Do("rm", "/dev/nvidia15")
}

// recorded runs the same package on a machine that is a tree: it reports the tree's content, and no facts of this node
// and its NVML.
func (m *machine) recorded(site string) {
	m.T.Helper()
	build := exec.Command("go", "run", "./tools/machines", "testdata/hardware/spec", m.Root+"/srv/machines")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		m.T.Fatalf("got %v: %s; want no error", err, out)
	}
	m.Put("/etc/sites/recorded/site.hcl", site+"\nstage \"detect-hw\" \"node\" {}\n", 0o644)
	out, exit := m.try(
		"prelet",
		"detect",
		"-o",
		"json",
		"--config",
		"/etc/sites/recorded",
		"--hardware",
		"/srv/machines/dgx-h100",
	)
	var s struct {
		Facts struct {
			Detectors map[string]struct {
				State string
				Facts struct {
					Products map[string]int
					Cuda     *string `json:"cuda_version"`
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		m.T.Fatalf("exit %d: got %v: %s; want no error", exit, err, out)
	}
	if d := s.Facts.Detectors["nvidia"]; exit != 0 || d.State != "ok" ||
		d.Facts.Products["NVIDIA H100 80GB HBM3"] != 8 ||
		d.Facts.Cuda != nil {
		m.T.Errorf("exit %d: a recorded machine: got %+v; want exit 0, State \"ok\", Facts.Products[NVIDIA H100 80GB HBM3] 8 and Facts.Cuda nil",
			exit, d)
	}
	m.T.Logf("a recorded machine: %+v", s.Facts.Detectors["nvidia"].Facts)
}
