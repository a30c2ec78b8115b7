package image

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostileUnits makes `detect@NAME`, which is prelet.service but for what it runs, and the program of hostile detectors
// from the machine's second disk.
const hostileUnits = `systemctl stop prelet kubelet
sed -e 's|^ExecStart=.*|ExecStart=/usr/bin/prelet detect -o json --config /etc/sites/%i\nStandardOutput=truncate:/var/lib/said-%i.json|' \
	-e 's/^Restart=.*/Restart=no/' /lib/systemd/system/prelet.service >/etc/systemd/system/detect@.service
systemctl daemon-reload
mkdir -p /usr/lib/prelet/detectors /usr/lib/prelet/detectors.lock.d
head -c "$0" /dev/vdb >/usr/lib/prelet/detectors/tries
chmod 755 /usr/lib/prelet/detectors/tries
ln /usr/lib/prelet/detectors/tries /usr/lib/prelet/detectors/hang-call
ln /usr/lib/prelet/detectors/tries /usr/lib/prelet/detectors/fork-bomb
prelet detectors lock /usr/lib/prelet/detectors/tries
prelet detectors lock /usr/lib/prelet/detectors/hang-call
prelet detectors lock /usr/lib/prelet/detectors/fork-bomb`

// TestHostile starts hostile detectors under the hardened unit, on the image's own kernel: with Landlock, filters of
// system calls for its architecture, limits and control groups.
func TestHostile(t *testing.T) {
	needImage(t)
	program := filepath.Join(t.TempDir(), "hostile")
	build := exec.Command("go", "test", "-c", "-vet=off", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w",
		"-o", program, "./internal/machine/detector/hostile")
	build.Dir = "../../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+architecture())
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: got %v: %s; want no error", build, err, out)
	}
	about, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(program, about.Size()+511&^511); err != nil { // whole sectors
		t.Fatal(err)
	}

	folder := filepath.Dir(os.Getenv(imageVariable))
	debs, _ := filepath.Glob(folder + "/prelet-detector-*.deb")
	if configs, _ := filepath.Glob("../../../packaging/detectors/*.yaml"); len(debs) != len(configs) || len(debs) == 0 {
		t.Fatalf("packages of detectors in %s: got %d; want %d", folder, len(debs), len(configs))
	}
	m := newMachine(t, "HOSTILE-1")
	m.command("sh", "-ec", `cd "$0" && tar -cf "$1" prelet-detector-*.deb`, folder, m.path("packages"))

	m.start("-drive", "if=virtio,format=raw,readonly=on,file="+program,
		"-drive", "if=virtio,format=raw,readonly=on,file="+m.path("packages"))
	t.Logf("packages of detectors:\n%s", m.run("sh", "-ec", `mkdir /root/debs
		tar -C /root/debs -xf /dev/vdc
		dpkg --install /root/debs/*.deb
		for program in /usr/lib/prelet/detectors/*; do "$program" describe >/dev/null; done
		prelet detectors list`))
	m.run("sh", "-ec", hostileUnits, strconv.FormatInt(about.Size(), 10))

	// detect runs a detector, and returns its attributes and what prelet reports.
	detect := func(name, block string) (attributes map[string]string, output string) {
		t.Helper()
		m.put("/etc/sites/"+name+"/site.hcl", "detector \""+name+"\" {\n"+block+"}\nstage \"detect-hw\" \"node\" {}\n")
		m.try("systemctl", "start", "detect@"+name)
		output = m.run("cat", "/var/lib/said-"+name+".json")
		var report struct {
			Facts struct {
				Detectors map[string]struct{ Attributes map[string]string }
			}
		}
		if err := json.Unmarshal([]byte(output), &report); err != nil {
			t.Fatalf("prelet detect with %s: got %v; want JSON:\n%s\n%s", name, err, output,
				m.try("journalctl", "-b", "-u", "detect@"+name, "--no-pager"))
		}

		return report.Facts.Detectors[name].Attributes, output
	}

	tried, output := detect("tries", `  required = true
  timeout = "60s"
  config {
    read_file    = "/etc/fstab"
    list_folder  = "/etc"
    run_program  = "/usr/bin/id"
    connect_bus  = "/run/dbus/system_bus_socket"
    read_token   = "/etc/shadow"
    read_cpuinfo = "/proc/cpuinfo"
  }
`)
	// Debian 12's kernel has an older Landlock, and the message names what that lacks: signals are tried where it is newer.
	const old = "below 6 it does not keep signals and abstract sockets inside"
	if strings.Contains(output, "sandbox") && !strings.Contains(output, old) {
		t.Errorf("a part of the sandbox is missing: got %s; want no message about it, or %q", output, old)
	}
	for _, key := range []string{"read_cpuinfo", "null", "socket_unix_stream"} {
		if tried[key] != "ok" {
			t.Errorf("%s: got %q; want ok", key, tried[key])
		}
	}
	for by, keys := range map[string]string{
		"Landlock": "read_file list_folder run_program",
		"seccomp": "setsid memfd shared_memory socket_tcp socket_udp socket_unix_datagram connect_bus bpf perf io_uring " +
			"mount shmat semop msgsnd mq_unlink flock",
		"users and groups": "read_token ptrace_host memory_of_host signal_1 setuid raise_memory",
	} {
		for _, key := range strings.Fields(keys) {
			if got := tried[key]; got == "ok" || got == "" {
				t.Errorf("%s, which %s forbids: got %q; want an error", key, by, got)
			}
		}
	}
	t.Logf("tried: %v", tried)

	for name, want := range map[string]string{"hang-call": "it exceeded its deadline", "fork-bomb": `"children"`} {
		began := time.Now()
		_, output := detect(name, "  timeout = \"20s\"\n")
		if !strings.Contains(output, want) {
			t.Errorf("%s: got %s; want %q", name, output, want)
		}
		if out := m.run("sh", "-c", "ps -eo user:32,pid,args | grep '^prelet-detector' || true"); out != "" {
			t.Errorf("%s: got these processes; want none:\n%s", name, out)
		}
		t.Logf("%s ended after %s", name, time.Since(began).Round(time.Second))
	}
	m.keep("hostile")
}
