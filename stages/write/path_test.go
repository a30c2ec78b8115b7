package write

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{
		"/etc/kubernetes/cloud.conf":      "",
		"/var/lib/prelet-exporter/config": "",
		"/run/preletd":                    "",
		"/device":                         "",
		"/etc/prelets":                    "",
		"/etc/systemd/system/prelet-exporter.service":                "",
		"/etc/systemd/system/kubelet.service.d/10-site.conf":         "",
		"/etc/sysctl.d/90-prelet.conf":                               "",
		"/var/lib/kubelet/pki/kubelet.crt":                           "",
		"/var/lib/kubelet/config.yaml":                               "",
		"/etc/prelet/zz.hcl":                                         "prelet's own folder",
		"/lib/prelet/site/a.hcl":                                     "prelet's own folder",
		"/usr/bin/prelet":                                            "prelet's program",
		"/bin/prelet-detect":                                         "prelet's program",
		"/usr/lib/prelet/detectors/x":                                "prelet's own folder",
		"/var/run/prelet/kubelet.env":                                "prelet's own folder",
		"/etc/systemd/system/prelet.service":                         "a unit of prelet's",
		"/etc/systemd/system/prelet.service.d/x.conf":                "a unit of prelet's",
		"/lib/systemd/system/prelet-verify.service":                  "a unit of prelet's",
		"/etc/systemd/system/prelet-.service.d/x.conf":               "a unit of prelet's",
		"/etc/systemd/system/multi-user.target.wants/prelet.service": "a unit of prelet's",
		"/run/systemd/system/kubelet.service.d/05-prelet-gate.conf":  "a unit of prelet's",
		"/etc/systemd/system/service.d/x.conf":                       "changes one",
		"/lib/systemd/system/service.d":                              "changes one",
		"/run/systemd/system/service.d/x.conf":                       "changes one",
		"/etc/systemd/system/my.service.d/x.conf":                    "",
		"/etc/.prelet-x":                                             "own temporaries",
		"/etc/.prelet-x/y":                                           "own temporaries",
		"/etc/x.prelet-y":                                            "",
		"/usr/local/lib/tmpfiles.d/prelet.conf":                      "hides a file of prelet's package",
		"/run/credentials/prelet.service/token":                      "credentials of units",
		"/etc/credstore/prelet.var.x":                                "takes credentials from there",
		"/etc/machine-id":                                            "identifies this machine",
		"/var/lib/dbus/machine-id":                                   "identifies this machine",
		"/etc/kubernetes/kubelet.conf":                               "identifies this node",
		"/var/lib/kubelet/pki/kubelet-client-current.pem":            "identifies this node",
		"/var/lib/kubelet/cpu_manager_state":                         "which pods and devices run on this node",
		"/etc/tmpfiles.d/prelet.conf":                                "hides a file of prelet's package",
		"/etc/a\x1b[2J": "contains an invisible character, or a character " +
			"that controls a terminal",
		"/etc/a\tb": "contains an invisible character, or a character " +
			"that controls a terminal",
		"/etc/a\u202eb": "contains an invisible character, or a character " +
			"that controls a terminal",
		"/etc/a\u200bb": "contains an invisible character, or a character " +
			"that controls a terminal",
		"etc/x":     "not an absolute path",
		"/":         "not a clean path",
		"/etc/../x": "not a clean path",
		"/etc//x":   "not a clean path",
		"/etc/a\nb": "contains an invisible character, or a character " +
			"that controls a terminal",
		"/etc/app/" + strings.Repeat("a", 255):    "",
		"/etc/app/" + strings.Repeat("a", 256):    "a name of 256 bytes is too long",
		"/etc/" + strings.Repeat("ö", 128) + "/x": "a name of 256 bytes is too long",
		"/etc" + strings.Repeat("/aaa", 999):      "",
		"/etc" + strings.Repeat("/aaa", 1000):     "a path of 4004 bytes is too long",
		"/proc/sys/kernel/panic":                  "the kernel's",
		"/sys":                                    "the kernel's",
		"/dev/null":                               "the kernel's",
		"/run/prelet":                             "prelet's own folder",
		"/run/prelet/kubelet.env":                 "prelet's own folder",
		"/run/prelet/status.json":                 "prelet's own folder",
		"/var/lib/prelet/journal.json":            "prelet's own folder",
		"/var/lib/prelet/generations/1/new/file":  "prelet's own folder",
	} {
		err := checkPath(path)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", path, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want an error with %q", path, err, want)
		}
	}
}

// TestSystemPaths wants files of the system in each spelling, and no drop-in folder of others.
func TestSystemPaths(t *testing.T) {
	for path, want := range table.YAML[map[string]string](t, `
/etc/passwd: looks up a user
/etc/shadow: looks up a user
/etc/nsswitch.conf: looks up a user
/etc/sudoers: sudo reads it
/etc/sudoers.d/site: ''
/etc/pam.d: login
/etc/pam.d/sshd: login
/etc/fstab: mounts by it
/etc/crypttab: mounts by it
/etc/fstab.d/x: ''
/etc/ld.so.preload: the loader
/etc/ld.so.conf: the loader
/etc/ld.so.conf.d/x.conf: ''
/etc/ssh/sshd_config: sshd reads it
/etc/ssh/sshd_config.d/x.conf: ''
/etc/ssh/ssh_config: ''
/etc/ssh/ssh_host_ed25519_key: keys of sshd
/root/.ssh/authorized_keys: keys of root
/root/x: ''
/bin: programs of the system
/bin/sh: programs of the system
/usr/sbin/init: programs of the system
/usr/local/bin/x: ''
/opt/bin/kubelet: ''
/lib64/ld-linux-x86-64.so.2: shared libraries
/lib/x86_64-linux-gnu/libc.so.6: shared libraries
/usr/lib/libx.so: shared libraries
/usr/lib/sysctl.d/x.conf: ''
/lib/modules/6.1/vmlinuz: kernel
/boot/grub/grub.cfg: kernel
/etc/kernel/cmdline: command line
/etc/default/kubelet: ''
/etc/dbus-1/system.conf: D-Bus
/etc/dbus-1/system.d/x.conf: ''
/lib/systemd/systemd: systemd itself
/etc/systemd/system/systemd-udevd.service: replaces a unit
/lib/systemd/system/multi-user.target: replaces a unit
/etc/systemd/system/getty@tty1.service: replaces a unit
/etc/systemd/system/systemd-udevd.service.d/10-x.conf: ''
/etc/systemd/system/multi-user.target.wants/x.service: ''
/etc/systemd/system/var.mount: replaces a unit
/etc/systemd/system/var-lib-kubelet.mount: ''
/etc/systemd/system/dbus-org.freedesktop.login1.service: replaces a unit
/etc/systemd/system/sshd@.service: replaces a unit
/etc/systemd/system-generators/systemd-fstab-generator: the mounts of fstab
/lib/systemd/system-generators: the mounts of fstab
/etc/hostname: name of this machine
/etc/profile: shell of a login
/etc/profile.d/site.sh: ''
# the usual place of proxies
/etc/environment: ''
/etc/environment.d/site.conf: ''
/etc/bash.bashrc: each shell
/etc/doas.conf: doas
/etc/security/limits.conf: limits
/etc/security/limits.d/site.conf: ''
/etc/ld-musl-x86_64.path: the loader
/etc/grub.d/10_linux: command line
/usr/lib/kernel/cmdline: command line
/etc/system-update: installs an update
/system-update: installs an update
/etc/dbus-1/system-local.conf: D-Bus
/etc/default/ssh: sshd takes
/etc/sysconfig/sshd: sshd takes
/etc/security/pam_env.conf: login
/etc/selinux/targeted/policy/policy.33: stops the boot
/etc/systemd/system/kubelet.service: ''
/etc/systemd/system/kubelet.service.d/20-site.conf: ''
/etc/systemd/system/containerd.service.d/http-proxy.conf: ''
/etc/systemd/journald.conf.d/x.conf: ''
`) {
		why := explainSystem(path)
		if want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("reason for %s: got %q, want %q", path, why, want)
		}
		if err := checkKubeletPath(path); want != "" && err == nil {
			t.Errorf("%s as a path of the kubelet's blocks: got no error, want one", path)
		}
	}
}

func TestModes(t *testing.T) {
	for mode, want := range map[string][2]string{
		"0644": {"", ""},
		"600":  {"", ""},
		"0000": {"restricts no more than", "restricts no more than"},
		"000":  {"restricts no more than", "restricts no more than"},
		"4755": {"has setuid", "has setuid"},
		"2755": {"setgid", "setgid"},
		"1777": {"sticky bit", ""},
		"0888": {"not a valid mode", "not a valid mode"},
	} {
		for i, check := range []func(string) error{checkFileMode, checkFolderMode} {
			err := check(mode)
			if want[i] == "" && err != nil || want[i] != "" && (err == nil || !strings.Contains(err.Error(), want[i])) {
				t.Errorf("%q, of a folder %t: got %v, want %q", mode, i == 1, err, want[i])
			}
		}
	}
}
