package write

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prelet/prelet/internal/lang/value"
)

// refusal is a reason why sites may not write some places. A place that ends in "/" is a folder with all below it,
// one with a "*" is a pattern of package path.
type refusal struct {
	why    string
	places []string
}

// listRefusals returns the places that no block may write.
func listRefusals() []refusal {
	return []refusal{
		{
			why:    "it is the kernel's, not a place for files",
			places: []string{"/proc/", "/sys/", "/dev/"},
		},
		{
			why:    "it is in prelet's own folder, which contains the gate; choose a path outside of it",
			places: []string{"/run/prelet/"},
		},
		{
			why:    "it is in prelet's own folder, which contains the journal; choose a path outside of it",
			places: []string{"/var/lib/prelet/"},
		},
		{
			why:    "it is in prelet's own folder: a site that writes a site makes the next boot another one",
			places: []string{"/etc/prelet/"},
		},
		{
			why:    "it is in prelet's own folder of the image",
			places: []string{"/usr/lib/prelet/", "/usr/local/lib/prelet/"},
		},
		{
			why:    "it is prelet's program",
			places: []string{"/usr/bin/prelet*", "/usr/local/bin/prelet*"},
		},
		{
			why:    "it is a file of prelet's package",
			places: []string{"/usr/lib/tmpfiles.d/prelet.conf", "/usr/lib/sysusers.d/prelet.conf"},
		},
		{
			why: "it hides a file of prelet's package",
			places: []string{
				"/etc/tmpfiles.d/prelet.conf", "/etc/sysusers.d/prelet.conf",
				"/usr/local/lib/tmpfiles.d/prelet.conf", "/usr/local/lib/sysusers.d/prelet.conf",
				"/run/tmpfiles.d/prelet.conf", "/run/sysusers.d/prelet.conf",
			},
		},
		{
			why:    "systemd puts the credentials of units there",
			places: []string{"/run/credentials/"},
		},
		{
			why: "systemd takes credentials from there, and a run must not read credentials that a run has written",
			places: []string{
				"/run/credstore/", "/run/credstore.encrypted/", "/etc/credstore/", "/etc/credstore.encrypted/",
				"/usr/lib/credstore/", "/usr/lib/credstore.encrypted/",
			},
		},
		{
			why:    "it is the key of this machine's credentials",
			places: []string{"/var/lib/systemd/credential.secret"},
		},
		{
			why:    "it identifies this machine",
			places: []string{"/etc/machine-id", "/var/lib/dbus/machine-id"},
		},
		{
			why: "the kubelet writes it when it joins: it identifies this node",
			places: []string{
				"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pki/kubelet-client*",
				"/var/lib/kubelet/pki/kubelet-server*",
			},
		},
		{
			why:    "the kubelet stores there which pods and devices run on this node",
			places: []string{"/var/lib/kubelet/*_state", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"},
		},
	}
}

// listSystemPlaces returns the places that a login, a boot or each program needs. Only a file or a directory block with
// force may write them. Folders for drop-ins of others are not among them.
func listSystemPlaces() []refusal {
	return []refusal{
		{
			why: "each login, and each program that looks up a user or a group, reads it",
			places: []string{
				"/etc/passwd", "/etc/passwd-", "/etc/shadow", "/etc/shadow-", "/etc/group", "/etc/group-",
				"/etc/gshadow", "/etc/gshadow-", "/etc/nsswitch.conf",
			},
		},
		{
			why: "login, ssh and sudo read it: an error in it, or the file itself, refuses each of them",
			places: []string{
				"/etc/pam.d/", "/etc/pam.conf", "/usr/lib/pam.d/", "/etc/login.defs", "/etc/securetty",
				"/etc/security/access.conf", "/etc/security/faillock.conf", "/etc/security/namespace.conf",
				"/etc/security/pam_env.conf", "/etc/nologin", "/run/nologin", "/etc/hosts.allow", "/etc/hosts.deny",
			},
		},
		{
			why: "each login takes its limits from it, and is refused if it cannot have them. A file in " +
				"/etc/security/limits.d adds to it",
			places: []string{"/etc/security/limits.conf"},
		},
		{
			why:    "each shell of a login reads it. A file in /etc/profile.d adds to it",
			places: []string{"/etc/profile"},
		},
		{
			why:    "each shell of a person reads it",
			places: []string{"/etc/bash.bashrc", "/etc/bashrc"},
		},
		{
			why:    "it is the name of this machine: with another one the next boot joins as another node",
			places: []string{"/etc/hostname"},
		},
		{
			why:    "sudo reads it, and refuses everybody after an error in it. A file in /etc/sudoers.d adds to it",
			places: []string{"/etc/sudoers", "/etc/sudo.conf"},
		},
		{
			why:    "doas reads it, and refuses everybody after an error in it",
			places: []string{"/etc/doas.conf"},
		},
		{
			why: "sshd reads it, and does not start after an error in it. A file in /etc/ssh/sshd_config.d adds to " +
				"it",
			places: []string{"/etc/ssh/sshd_config"},
		},
		{
			why:    "sshd takes its options from it, and does not start with an unknown one",
			places: []string{"/etc/default/ssh", "/etc/sysconfig/sshd"},
		},
		{
			why:    "clients know this machine by these keys of sshd",
			places: []string{"/etc/ssh/ssh_host_*"},
		},
		{
			why:    "it has the keys of root, who would log in with others",
			places: []string{"/root/.ssh/", "/var/roothome/.ssh/"},
		},
		{
			why:    "the loader reads it at the start of each program, also of systemd and of a shell",
			places: []string{"/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.cache", "/etc/ld-musl-*.path"},
		},
		{
			why: "each program loads shared libraries from there",
			places: []string{
				"/usr/lib/*.so", "/usr/lib/*.so.*", "/usr/lib/*-linux-gnu*", "/usr/lib/*-linux-musl*", "/usr/lib32/",
				"/usr/lib64/", "/usr/libx32/",
			},
		},
		{
			why: "the programs of the system are there, shells and init too. A program of the site fits in /opt or " +
				"/usr/local/bin",
			places: []string{"/usr/bin/", "/usr/sbin/"},
		},
		{
			why:    "systemd mounts by it before each login: an error in it ends a boot in the emergency mode",
			places: []string{"/etc/fstab", "/etc/crypttab", "/etc/veritytab", "/etc/integritytab"},
		},
		{
			why:    "the boot loader, the kernel and its initrd are there",
			places: []string{"/boot/", "/efi/", "/usr/lib/modules/"},
		},
		{
			why:    "the command line of the kernel is made from it",
			places: []string{"/etc/default/grub", "/etc/grub.d/", "/etc/kernel/cmdline", "/usr/lib/kernel/cmdline"},
		},
		{
			why: "systemd executes it before it starts any unit: generators make the mounts of fstab, and logins. An " +
				"empty file turns one off",
			places: []string{
				"/etc/systemd/system-generators/", "/run/systemd/system-generators/",
				"/usr/lib/systemd/system-generators/", "/usr/local/lib/systemd/system-generators/",
				"/etc/systemd/system-environment-generators/", "/run/systemd/system-environment-generators/",
				"/usr/lib/systemd/system-environment-generators/",
				"/usr/local/lib/systemd/system-environment-generators/",
			},
		},
		{
			why:    "systemd reads it before it starts any unit, and stops the boot after an error in it",
			places: []string{"/etc/selinux/"},
		},
		{
			why:    "where it exists, systemd takes the system for an initrd, and starts other units",
			places: []string{"/etc/initrd-release", "/usr/lib/initrd-release"},
		},
		{
			why:    "where it exists, systemd installs an update in place of the boot, removes it, and boots again",
			places: []string{"/system-update", "/etc/system-update"},
		},
		{
			why: "D-Bus reads it, and does not start after an error in it: then no program reaches systemd",
			places: []string{
				"/etc/dbus-1/system.conf", "/etc/dbus-1/session.conf", "/etc/dbus-1/system-local.conf",
				"/etc/dbus-1/session-local.conf", "/usr/share/dbus-1/system.conf", "/usr/share/dbus-1/session.conf",
			},
		},
		{
			why:    "it is systemd itself",
			places: []string{"/usr/lib/systemd/systemd*", "/usr/lib/systemd/libsystemd*"},
		},
	}
}

// What the kubelet does with the files of a folder.
const (
	runsPods     = "the kubelet runs the pods in them, which may be root on the host"
	runsPrograms = "the kubelet runs them as root"
)

// listRootFolders returns folders in which other programs find what root is to do. A directory block gives them to
// other users, or lets others write there, only with force.
func listRootFolders() []refusal {
	return []refusal{
		{why: "sshd and ssh read them", places: []string{"/etc/ssh/"}},
		{why: "sudo reads them", places: []string{"/etc/sudoers.d/"}},
		{why: "doas reads them", places: []string{"/etc/doas.d/"}},
		{why: "each login reads them", places: []string{"/etc/pam.d/"}},
		{
			why: "cron runs them as root",
			places: []string{
				"/etc/cron.d/", "/etc/cron.hourly/", "/etc/cron.daily/", "/etc/cron.weekly/", "/etc/cron.monthly/",
				"/etc/cron.yearly/", "/var/spool/cron/", "/etc/periodic/",
			},
		},
		{
			why:    "systemd reads or runs them",
			places: []string{"/etc/systemd/", "/run/systemd/", "/usr/lib/systemd/", "/usr/local/lib/systemd/"},
		},
		{
			why:    "udev runs as root what they say",
			places: []string{"/etc/udev/", "/run/udev/rules.d/", "/usr/lib/udev/"},
		},
		{
			why:    "modprobe runs as root what they say, and the kernel loads the modules that they name",
			places: []string{"/etc/modprobe.d/", "/run/modprobe.d/", "/etc/modules-load.d/", "/run/modules-load.d/"},
		},
		{why: "systemd sets the kernel's parameters by them", places: []string{"/etc/sysctl.d/", "/run/sysctl.d/"}},
		{
			why:    "systemd makes, changes and removes files by them as root",
			places: []string{"/etc/tmpfiles.d/", "/run/tmpfiles.d/"},
		},
		{
			why: "NetworkManager or networkd-dispatcher runs them as root",
			places: []string{
				"/etc/NetworkManager/dispatcher.d/", "/usr/lib/NetworkManager/dispatcher.d/",
				"/etc/networkd-dispatcher/",
			},
		},
		{
			why: "programs of the system run or obey them as root: at a boot, a login, a change of the network or of " +
				"packages, or each day",
			places: []string{
				"/etc/init.d/", "/etc/rc.d/", "/etc/network/", "/etc/dhcp/", "/etc/ppp/", "/etc/update-motd.d/",
				"/etc/logrotate.d/", "/etc/sysusers.d/", "/run/sysusers.d/", "/etc/binfmt.d/", "/etc/kernel/",
				"/etc/apt/", "/etc/dpkg/", "/etc/yum.repos.d/", "/etc/polkit-1/", "/etc/selinux/",
			},
		},
		{why: runsPods, places: []string{"/etc/kubernetes/manifests/"}},
		{
			why:    "the container runtime runs as root what they say",
			places: []string{"/etc/cni/net.d/", "/etc/containerd/", "/etc/crio/", "/etc/containers/"},
		},
		{
			why:    "the container runtime runs them as root",
			places: []string{"/opt/cni/bin/", "/usr/lib/cni/", "/usr/libexec/cni/"},
		},
		{
			why:    runsPrograms,
			places: []string{"/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"},
		},
	}
}

// explainRootFolder returns why a folder must stay root's; "" if it may be another user's. The kubelet's settings name
// some of these folders.
func (r *renderer) explainRootFolder(p string) string {
	folders := listRootFolders()
	add := func(why string, place any) {
		if s, ok := place.(string); ok && s != "" {
			folders = append(folders, refusal{why: why, places: []string{path.Clean(s) + "/"}})
		}
	}
	add(runsPods, r.node.Config["staticPodPath"])
	add(runsPrograms, r.node.Config["volumePluginDir"])
	for _, f := range r.node.Flags {
		switch f.Name {
		case "pod-manifest-path":
			add(runsPods, f.Value)
		case "volume-plugin-dir", "image-credential-provider-bin-dir":
			add(runsPrograms, f.Value)
		}
	}

	return findRefusal(folders, resolveAliases(p))
}

// systemUnits are units that systemd, its logins and D-Bus need: a file with this name in a folder of units replaces
// one of them. Drop-ins only add to them. The mounts are those that fstab has on many machines. Source:
// systemd.special(7).
const systemUnits = `
-.mount -.slice autovt@.service basic.target boot-complete.target boot-efi.mount boot.mount console-getty.service
container-getty@.service cryptsetup-pre.target cryptsetup.target ctrl-alt-del.target dbus-broker.service dbus.service
dbus.socket default.target efi.mount emergency.service emergency.target etc.mount exit.target final.target
first-boot-complete.target getty-pre.target getty.target getty@.service graphical.target halt.target hibernate.target
hybrid-sleep.target init.scope initrd-fs.target initrd-root-device.target initrd-root-fs.target
initrd-switch-root.target initrd.target integritysetup.target kexec.target local-fs-pre.target local-fs.target
machine.slice multi-user.target network-online.target network-pre.target network.target nss-lookup.target
nss-user-lookup.target paths.target poweroff.target reboot.target remote-fs-pre.target remote-fs.target rescue.service
rescue.target rpcbind.target runlevel0.target runlevel1.target runlevel2.target runlevel3.target runlevel4.target
runlevel5.target runlevel6.target serial-getty@.service shutdown.target sleep.target slices.target sockets.target
soft-reboot.target ssh.service ssh.socket ssh@.service sshd.service sshd.socket sshd@.service suspend.target
swap.target sysinit.target system.slice time-set.target time-sync.target timers.target umount.target user-.slice
user-runtime-dir@.service user.slice user@.service usr.mount var-lib.mount var.mount veritysetup.target`

// listAliases returns folders that are links to others on today's systems, each with the other.
func listAliases() [][2]string {
	return [][2]string{
		{"/bin/", "/usr/bin/"},
		{"/sbin/", "/usr/sbin/"},
		{"/lib/", "/usr/lib/"},
		{"/lib32/", "/usr/lib32/"},
		{"/lib64/", "/usr/lib64/"},
		{"/libx32/", "/usr/libx32/"},
		{"/var/run/", "/run/"},
	}
}

// listUnitFolders returns where systemd looks for units and their drop-ins.
// Source: systemd.unit(5), "Unit File Load Path".
func listUnitFolders() []string {
	return []string{
		"/etc/systemd/system", "/etc/systemd/system.control", "/etc/systemd/system.attached",
		"/run/systemd/system", "/run/systemd/system.control", "/run/systemd/system.attached",
		"/run/systemd/transient",
		"/run/systemd/generator", "/run/systemd/generator.early", "/run/systemd/generator.late",
		"/usr/lib/systemd/system", "/usr/local/lib/systemd/system",
	}
}

// listOwnUnits returns prelet's units, drop-ins of all services, and the drop-in that makes the kubelet wait for
// the gate.
func listOwnUnits() []string {
	return []string{
		"prelet.service", "prelet-apply.service", "prelet-verify.service", "prelet-boot-check.service",
		"prelet-.service.d", "service.d", "05-prelet-gate.conf",
	}
}

// ownTemporaries begins the name of each temporary file that prelet makes in the folder of a managed file.
const ownTemporaries = ".prelet-"

// Longer paths, and longer names in them, are refused by the commit (4000 bytes) and by file systems, in bytes.
const (
	maxPath = 4000
	maxName = 255
)

// checkPath checks a path of a file or directory block, without what force decides.
func checkPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not an absolute path: write %q", p, path.Clean("/"+p))
	case path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not a clean path: write %q, without . and .. and double slashes", p, path.Clean(p))
	case strings.ContainsFunc(p, func(r rune) bool {
		return !value.IsVisible(r)
	}):
		return fmt.Errorf("%q contains an invisible character, or a character that controls a terminal", p)
	case len(p) > maxPath:
		return fmt.Errorf("a path of %d bytes is too long: write at most %d", len(p), maxPath)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return fmt.Errorf("a name of %d bytes is too long: file systems take %d", len(name), maxName)
		}
	}
	if why := explainRefusal(p); why != "" {
		return fmt.Errorf("%q cannot be written by a site: %s", p, why)
	}

	return nil
}

// checkKubeletPath checks a path of a block of the kubelet, which has no force.
func checkKubeletPath(p string) error {
	if err := checkPath(p); err != nil {
		return err
	}
	if why := explainSystem(p); why != "" {
		return fmt.Errorf("%q is not a file of the kubelet: %s", p, why)
	}

	return nil
}

// checkForce checks a reason for writing a file of the system.
func checkForce(s string) error {
	isText := strings.ContainsFunc(s, unicode.IsLetter) && !strings.ContainsFunc(s, func(r rune) bool {
		return r != ' ' && !value.IsVisible(r)
	})
	if !isText || len(s) > maxForce {
		return fmt.Errorf("write the reason in one line of at most %d characters, which plan and status show", maxForce)
	}

	return nil
}

const maxForce = 200

// resolveAliases returns a path on today's systems.
func resolveAliases(p string) string {
	for _, a := range listAliases() {
		if rest, ok := strings.CutPrefix(p+"/", a[0]); ok {
			p = path.Clean(a[1] + rest)
		}
	}

	return p
}

// findRefusal returns the reason of the first refusal of a path; "" if there is none.
func findRefusal(refusals []refusal, p string) string {
	for _, r := range refusals {
		if slices.ContainsFunc(r.places, func(place string) bool {
			return isAt(place, p)
		}) {
			return r.why
		}
	}

	return ""
}

// listUnitNames returns the names of a path below a folder of units; nil if it is elsewhere.
func listUnitNames(p string) []string {
	for _, dir := range listUnitFolders() {
		if rest, ok := strings.CutPrefix(p, dir+"/"); ok {
			return strings.Split(rest, "/")
		}
	}

	return nil
}

// explainRefusal returns why no site may write a path; "" if sites may write it.
func explainRefusal(p string) string {
	p = resolveAliases(p)
	if why := findRefusal(listRefusals(), p); why != "" {
		return why
	}

	switch {
	case strings.Contains(p, "/"+ownTemporaries):
		return "prelet's own temporaries begin with " + ownTemporaries
	case slices.ContainsFunc(listUnitNames(p), isOwnUnit):
		return "it is a unit of prelet's, or changes one"
	}

	return ""
}

// explainSystem returns why a path needs force; "" if it needs none.
func explainSystem(p string) string {
	p = resolveAliases(p)
	names := listUnitNames(p)
	if len(names) == 1 && isSystemUnit(names[0]) {
		return "it replaces a unit that each boot or login needs. A drop-in in " + p + ".d changes it"
	}

	return findRefusal(listSystemPlaces(), p)
}

// isSystemUnit reports whether systemd, a login or D-Bus needs a unit, or an instance of it.
func isSystemUnit(name string) bool {
	template, instance, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(instance, '.'); i >= 0 {
		template += "@" + instance[i:]
	}

	return strings.HasPrefix(name, "systemd-") || strings.HasPrefix(name, "dbus-org.freedesktop.") ||
		slices.Contains(strings.Fields(systemUnits), template)
}

// isAt reports whether a path is at a refused place, or below it.
func isAt(place, p string) bool {
	if folder, ok := strings.CutSuffix(place, "/"); ok {
		return p == folder || strings.HasPrefix(p, place)
	}
	for ; p != "/"; p = path.Dir(p) {
		if ok, err := path.Match(place, p); ok && err == nil {
			return true
		}
	}

	return false
}

func isOwnUnit(name string) bool {
	for _, suffix := range []string{".d", ".wants", ".requires", ".upholds"} {
		if unit, ok := strings.CutSuffix(name, suffix); ok && slices.Contains(listOwnUnits(), unit) {
			return true
		}
	}

	return slices.Contains(listOwnUnits(), name)
}

// checkFileMode checks the permissions of a file.
func checkFileMode(s string) error {
	n, err := parseMode(s)
	if err == nil && n > 0o777 {
		return fmt.Errorf("%q has setuid, setgid or the sticky bit, which prelet's unit may not set. Write \"%04o\"",
			s, n&0o777)
	}

	return err
}

// checkFolderMode checks the permissions of a folder, which may be sticky.
func checkFolderMode(s string) error {
	n, err := parseMode(s)
	if err == nil && n&0o6000 != 0 {
		return fmt.Errorf("%q has setuid or setgid, which prelet's unit may not set. Write \"%04o\"", s, n&0o1777)
	}

	return err
}

func parseMode(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	switch {
	case err != nil || n > 0o7777 || len(s) < 3:
		return 0, fmt.Errorf("%q is not a valid mode; write it octal, as \"0644\"", s)
	case n == 0:
		return 0, fmt.Errorf("%q restricts no more than \"0600\", because root reads it anyway. "+
			"Write \"0600\" or \"0400\"", s)
	}

	return n, nil
}
