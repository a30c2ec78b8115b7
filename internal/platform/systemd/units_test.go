package systemd_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/coreos/go-systemd/v22/unit"

	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/internal/testing/osfile"
)

const packaging = "../../../packaging/systemd"

var (
	runs = []string{"prelet.service", "prelet-apply.service"}
	ours = append([]string{"prelet-verify.service"}, runs...)
)

// lines is a unit file: "Section.Key" → its lines, in order.
type lines map[string][]string

func parse(t *testing.T, name string) lines {
	t.Helper()
	file, err := os.Open(filepath.Join(packaging, name))
	must(t, err)
	defer file.Close()
	options, err := unit.DeserializeOptions(file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	out := lines{}
	for _, o := range options {
		key := o.Section + "." + o.Name
		out[key] = append(out[key], o.Value)
	}
	return out
}

func (l lines) words(key string) []string { return strings.Fields(strings.Join(l[key], " ")) }

// mounts are those that all three units come after, if there are any, and do not need.
const mounts = " local-fs.target var.mount var-lib.mount var-lib-prelet.mount var-lib-kubelet.mount etc.mount" +
	" etc-kubernetes.mount var.automount var-lib.automount var-lib-prelet.automount var-lib-kubelet.automount" +
	" etc-kubernetes.automount"

// TestPreletUnits compares the list of units with the files that the packages ship.
func TestPreletUnits(t *testing.T) {
	shipped, err := filepath.Glob(filepath.Join(packaging, "prelet*"))
	for i, file := range shipped {
		shipped[i] = filepath.Base(file)
	}
	slices.Sort(shipped)
	got := slices.Sorted(slices.Values(unitfile.PreletUnits()))
	if err != nil || !slices.Equal(got, shipped) {
		t.Errorf("units: got %q, want those in %s: %q, %v", got, packaging, shipped, err)
	}
}

// TestUnitsSayWhatWasProven holds the lines without which a scenario on a real boot failed. The comments in the units
// say which.
func TestUnitsSayWhatWasProven(t *testing.T) {
	for _, tc := range table.YAML[[]struct {
		File, Key string
		Want      string // words; "": the key must not be there
	}](t, `
- {file: prelet.service, key: Unit.Before, want: kubelet.service}
- {file: prelet.service, key: Unit.Wants, want: network-online.target}
- {file: prelet.service, key: Unit.After, want: 'network-online.target{mounts}'}
- {file: prelet.service, key: Service.Type, want: oneshot}
- {file: prelet.service, key: Service.RemainAfterExit, want: 'yes'}
- {file: prelet.service, key: Service.ExecStart, want: /usr/bin/prelet run}
- {file: prelet.service, key: Service.ExecStop, want: -/usr/bin/prelet stopping}
- {file: prelet.service, key: Install.WantedBy, want: multi-user.target}
- {file: prelet-apply.service, key: Unit.Before}
- {file: prelet-apply.service, key: Unit.After, want: 'prelet.service{mounts}'}
- {file: prelet-apply.service, key: Service.Type, want: oneshot}
- {file: prelet-apply.service, key: Service.RemainAfterExit}
- {file: prelet-apply.service, key: Service.ExecStart, want: /usr/bin/prelet run}
- {file: prelet-apply.service, key: Service.RestartSec, want: '1'}
- {file: prelet-apply.service, key: Install.WantedBy}
- {file: prelet-verify.service, key: Unit.After, want: 'kubelet.service prelet.service prelet-apply.service{mounts}'}
- {file: prelet-verify.service, key: Unit.ConditionPathExists,
   want: '|/run/prelet/generation.pending |!/run/prelet/kubelet.env
     |/run/prelet/conditions.owed |/run/prelet/verdict.owed'}
- {file: prelet-verify.service, key: Service.Type, want: exec}
- {file: prelet-verify.service, key: Service.ExecStart, want: /usr/bin/prelet verify}
- {file: prelet-verify.service, key: Service.RestartSec, want: '1'}
- {file: prelet-verify.service, key: Service.LoadCredential}
- {file: prelet-verify.service, key: Install.WantedBy, want: kubelet.service}
- {file: kubelet.service.d/05-prelet-gate.conf, key: Unit.Wants, want: prelet.service prelet-fallback.service}
- {file: kubelet.service.d/05-prelet-gate.conf, key: Unit.After, want: prelet.service prelet-fallback.service}
- {file: kubelet.service.d/05-prelet-gate.conf, key: Unit.Requires}
- {file: kubelet.service.d/05-prelet-gate.conf, key: Unit.StartLimitIntervalSec, want: '0'}
- {file: kubelet.service.d/05-prelet-gate.conf, key: Service.EnvironmentFile, want: /run/prelet/kubelet.env}
`, "mounts", mounts) {
		if got := strings.Join(parse(t, tc.File).words(tc.Key), " "); got != tc.Want {
			t.Errorf("%s: %s is %q, want %q", tc.File, tc.Key, got, tc.Want)
		}
	}
}

// TestUnitsLookInRunOnly reads all shipped unit files and drop-ins: systemd itself looks at the paths of these settings,
// and would hang on a file system that does not answer. A service without an end could hang for ever, too.
func TestUnitsLookInRunOnly(t *testing.T) {
	isLook := func(key string) bool {
		section, name, _ := strings.Cut(key, ".")
		switch {
		case section == "Path", strings.HasPrefix(name, "Condition"), strings.HasPrefix(name, "Assert"):
			return true
		}

		return slices.Contains(strings.Fields(`
			RequiresMountsFor WantsMountsFor EnvironmentFile PIDFile RootDirectory RootImage StateDirectory
			CacheDirectory LogsDirectory ConfigurationDirectory PrivateTmp
		`), name)
	}

	files := 0
	root := filepath.Join(packaging, "..")
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		isUnit := slices.Contains([]string{".service", ".timer", ".path", ".socket", ".mount"}, filepath.Ext(path))
		isDropIn := filepath.Ext(path) == ".conf" && strings.Contains(path, "/systemd/") &&
			slices.Contains([]string{".service", ".target"}, filepath.Ext(strings.TrimSuffix(filepath.Dir(path), ".d")))
		if err != nil || !isUnit && !isDropIn {
			return err
		}
		files++
		name, err := filepath.Rel(packaging, path)
		if err != nil {
			return err
		}
		got := parse(t, name)
		for key, values := range got {
			for _, value := range values {
				looked := strings.TrimLeft(value, "|!-")
				if isLook(key) && !strings.HasPrefix(looked, "/run/") {
					t.Errorf("%s: got %s=%s, want a path in /run, or ExecCondition=", name, key, value)
				}
			}
		}
		isOneshot := slices.Equal(got["Service.Type"], []string{"oneshot"})
		if isOneshot && got["Service.TimeoutStartSec"] == nil {
			t.Errorf("%s: got a oneshot without TimeoutStartSec=, which may hang for ever", name)
		}

		return nil
	})
	if err != nil || files < 10 {
		t.Errorf("unit files and drop-ins below %s: got %d, %v; want at least 10", root, files, err)
	}
}

func TestUnitsHaveInCommon(t *testing.T) {
	for _, name := range ours {
		u := parse(t, name)
		// The others imply the first, each for its folders on a disk (systemd.exec(5)).
		for _, key := range strings.Fields(`
			Unit.RequiresMountsFor Service.StateDirectory Service.CacheDirectory Service.LogsDirectory
			Service.PrivateTmp Service.WorkingDirectory Service.RootDirectory
		`) {
			if u[key] != nil {
				t.Errorf("%s: got %s=, want none, because it keeps a node down whose disk is absent", name, key)
			}
		}
		capabilities := "CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE"
		if name != "prelet-verify.service" { // which runs no detector
			capabilities += " CAP_SETUID CAP_SETGID CAP_KILL"
		}
		for key, want := range table.YAML[map[string]string](t, `
Service.ExecStartPre: -+systemd-tmpfiles --create prelet.conf
Unit.StartLimitIntervalSec: '0'
Service.Restart: on-failure
Service.NotifyAccess: main
Service.Environment: PRELET_BOOT_ID=%b GOMAXPROCS=4
Service.TimerSlackNSec: 1ms
Service.RuntimeDirectory: prelet
Service.RuntimeDirectoryMode: '0755'
Service.RuntimeDirectoryPreserve: 'yes'
Service.UMask: '0077'
Service.ProtectSystem: strict
Service.NoNewPrivileges: 'yes'
Service.DevicePolicy: closed
Service.RestrictAddressFamilies: AF_UNIX AF_INET AF_INET6 AF_NETLINK
Service.CapabilityBoundingSet: '{capabilities}'
Service.SystemCallErrorNumber: EPERM
`, "capabilities", capabilities) {
			if got := strings.Join(u[key], " "); got != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got, want)
			}
		}
		limit := "Service.TimeoutStartSec"
		if name == "prelet-verify.service" {
			limit = "Service.RuntimeMaxSec" // a oneshot has none, Type=exec ends by it
		}
		if seconds, err := strconv.Atoi(strings.Join(u[limit], "")); err != nil || seconds < 60 || seconds > 3600 {
			t.Errorf("%s: got %s=%q, want a finite one, else the kubelet may wait for ever", name, limit, u[limit])
		}
		for key := range u {
			for _, value := range u[key] {
				if strings.Contains(value, "cloud-final") || strings.Contains(value, "ignore-dependencies") {
					t.Errorf("%s: got %s=%s, want none, because it makes an ordering cycle or ignores all ordering",
						name, key, value)
				}
			}
		}
		for _, forbidden := range []string{"Service.WatchdogSec", "Service.DynamicUser", "Service.SuccessExitStatus"} {
			if u[forbidden] != nil {
				t.Errorf("%s: %s", name, forbidden)
			}
		}
	}
}

// TestUnitsOfRunsCanMakeSandboxes checks the system calls that the units allow: without them a detector runs without
// Landlock and seccomp, silently.
func TestUnitsOfRunsCanMakeSandboxes(t *testing.T) {
	for _, name := range runs {
		u := parse(t, name)
		for _, call := range []string{"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"} {
			if !slices.Contains(u.words("Service.SystemCallFilter"), call) {
				t.Errorf("%s: SystemCallFilter=: want %s in it", name, call)
			}
		}
	}
}

// TestCredentialsMayBeMissing: a path would make a missing one fail the unit before prelet can say what is missing.
func TestCredentialsMayBeMissing(t *testing.T) {
	for _, name := range runs {
		u := parse(t, name)
		if !slices.Contains(u["Service.LoadCredential"], "bootstrap-token") {
			t.Errorf("%s: got LoadCredential=%q, want bootstrap-token", name, u["Service.LoadCredential"])
		}
		for _, line := range u["Service.LoadCredential"] {
			if strings.Contains(line, ":") {
				t.Errorf("%s: got LoadCredential=%s, want no path, because a missing file is 243/CREDENTIALS",
					name, line)
			}
		}
	}
}

// TestWritablePathsExist: a path of ReadWritePaths= without "-" that is missing is 226/NAMESPACE, also for
// ExecStartPre=+.
func TestWritablePathsExist(t *testing.T) {
	made := []string{"/etc"} // every system has it
	text := osfile.Read(t, filepath.Join(packaging, "tmpfiles.d/prelet.conf"))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && (fields[0] == "d" || fields[0] == "f") {
			made = append(made, fields[1])
		}
	}
	for _, folder := range []string{"/etc/kubernetes", "/etc/systemd/system/kubelet.service.d"} {
		if !slices.Contains(made, folder) {
			t.Errorf("tmpfiles.d/prelet.conf: want a line for %s", folder)
		}
	}
	for _, name := range ours {
		paths := parse(t, name).words("Service.ReadWritePaths")
		if !slices.Equal(paths, []string{"/etc", "-/var/lib/prelet", "-/var/lib/kubelet", "-/run/agetty.reload"}) {
			t.Errorf("%s: got ReadWritePaths=%q, want /etc and three that may be missing", name, paths)
		}
		for _, path := range paths {
			if !slices.Contains(made, strings.TrimPrefix(path, "-")) {
				t.Errorf("%s: %s: want a line for it in tmpfiles.d/prelet.conf", name, path)
			}
		}
	}
}

// TestUnitsBoundDetectors: what detectors may take of a machine, and that each has a small folder of its own for its
// socket.
func TestUnitsBoundDetectors(t *testing.T) {
	file := osfile.Read(t, filepath.Join(packaging, "sysusers.d/prelet.conf"))
	var folders []string
	for line := range strings.Lines(string(file)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "u" {
			folders = append(
				folders,
				"/run/prelet/detectors/sockets/"+f[1]+":size=64k,nr_inodes=256,mode=0700,nosuid,nodev,noexec",
			)
		}
	}
	if len(folders) != 16 {
		t.Fatalf("users of detectors: got %d, want 16", len(folders))
	}
	for _, name := range ours {
		u := parse(t, name)
		const own = ":size=64M,mode=1777,nosuid,nodev"
		tmp := "/tmp" + own + " /var/tmp" + own
		want := map[string][]string{"Service.LimitCORE": {"1"}, "Service.TemporaryFileSystem": {tmp}}
		if slices.Contains(runs, name) {
			want["Service.OOMPolicy"], want["Service.MemoryMax"] = []string{"continue"}, []string{"25%"}
			want["Service.MemorySwapMax"], want["Service.PrivateIPC"] = []string{"0"}, []string{"yes"}
			want["Service.TasksMax"], want["Service.TemporaryFileSystem"] = []string{
				"1200",
			}, append(
				slices.Clone(folders),
				tmp,
			)
		}
		for key, lines := range want {
			if got := u[key]; !slices.Equal(got, lines) {
				t.Errorf("%s: %s: got %q, want %q", name, key, got, lines)
			}
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
