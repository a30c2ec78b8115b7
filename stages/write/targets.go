package write

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/lang/value"
)

// refused are the places that no site writes, each with the reason. One that ends in "/" is a folder with all below it, one
// with a "*" is a pattern of package path.
var refused = []struct{ place, why string }{
	{"/proc/", "it is the kernel's, not a place for files"},
	{"/sys/", "it is the kernel's, not a place for files"},
	{"/dev/", "it is the kernel's, not a place for files"},
	{"/run/prelet/", "it lies in prelet's own folder, where the gate stands; choose a path outside of it"},
	{"/var/lib/prelet/", "it lies in prelet's own folder, where the journal stands; choose a path outside of it"},
	{"/etc/prelet/", "it lies in prelet's own folder: a site that writes a site makes the next boot another one"},
	{"/usr/lib/prelet/", "it lies in prelet's own folder, of the image"},
	{"/usr/local/lib/prelet/", "it lies in prelet's own folder, of the image"},
	{"/usr/bin/prelet*", "it is prelet's program"},
	{"/usr/local/bin/prelet*", "it is prelet's program"},
	{"/usr/lib/tmpfiles.d/prelet.conf", "it is a file of prelet's package"},
	{"/usr/lib/sysusers.d/prelet.conf", "it is a file of prelet's package"},
	{"/etc/tmpfiles.d/prelet.conf", "it hides a file of prelet's package"},
	{"/etc/sysusers.d/prelet.conf", "it hides a file of prelet's package"},
	{"/usr/local/lib/tmpfiles.d/prelet.conf", "it hides a file of prelet's package"},
	{"/usr/local/lib/sysusers.d/prelet.conf", "it hides a file of prelet's package"},
	{"/run/tmpfiles.d/prelet.conf", "it hides a file of prelet's package"},
	{"/run/sysusers.d/prelet.conf", "it hides a file of prelet's package"},
	{"/run/credentials/", "systemd puts the credentials of units there"},
	{"/run/credstore/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/run/credstore.encrypted/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/etc/credstore/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/etc/credstore.encrypted/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/usr/lib/credstore/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/usr/lib/credstore.encrypted/", "systemd takes credentials from there, and what a run is given must not be what a run has written"},
	{"/var/lib/systemd/credential.secret", "it is the key of this machine's credentials"},
	{"/etc/machine-id", "it says which machine this is"},
	{"/var/lib/dbus/machine-id", "it says which machine this is"},
	{"/etc/kubernetes/kubelet.conf", "the kubelet writes it when it joins: it says which node this is"},
	{"/var/lib/kubelet/pki/kubelet-client*", "the kubelet writes it when it joins: it says which node this is"},
	{"/var/lib/kubelet/pki/kubelet-server*", "the kubelet writes it when it joins: it says which node this is"},
	{"/var/lib/kubelet/*_state", "the kubelet keeps there what runs on this node"},
	{"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "the kubelet keeps there what runs on this node"},
}

// aliases are folders that are links to others on today's systems.
var aliases = [][2]string{{"/bin/", "/usr/bin/"}, {"/sbin/", "/usr/sbin/"}, {"/lib/", "/usr/lib/"}, {"/var/run/", "/run/"}}

// unitFolders are where systemd looks for units and their drop-ins.
// Source: systemd.unit(5), "Unit File Load Path".
var unitFolders = []string{"/etc/systemd/system", "/etc/systemd/system.control", "/etc/systemd/system.attached", "/run/systemd/system", "/run/systemd/system.control",
	"/run/systemd/system.attached", "/run/systemd/transient", "/run/systemd/generator", "/run/systemd/generator.early", "/run/systemd/generator.late",
	"/usr/lib/systemd/system", "/usr/local/lib/systemd/system"}

// ownUnits are prelet's units, drop-ins of all services, and the drop-in that makes the kubelet wait for the gate.
var ownUnits = []string{"prelet.service", "prelet-apply.service", "prelet-verify.service", "prelet-.service.d", "service.d", "05-prelet-gate.conf"}

// ownTemporaries is how the name of each file begins that prelet makes beside a target for a moment.
const ownTemporaries = ".prelet-"

func checkPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not an absolute path: write %q", p, path.Clean("/"+p))
	case path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not a clean path: write %q, without . and .. and double slashes", p, path.Clean(p))
	case strings.ContainsFunc(p, func(r rune) bool { return !value.IsVisible(r) }):
		return fmt.Errorf("%q holds a character that no path should: one that controls a terminal or is not seen", p)
	}
	if why := whyRefused(p); why != "" {
		return fmt.Errorf("%q cannot be a target: %s", p, why)
	}
	return nil
}

// whyRefused returns why no site may write a path; "" for the others.
func whyRefused(p string) string {
	for _, a := range aliases {
		if rest, ok := strings.CutPrefix(p, a[0]); ok {
			p = a[1] + rest
		}
	}
	for _, r := range refused {
		switch folder, isFolder := strings.CutSuffix(r.place, "/"); {
		case isFolder && (p == folder || strings.HasPrefix(p, r.place)):
			return r.why
		case !isFolder && matches(r.place, p):
			return r.why
		}
	}
	if strings.Contains(p, "/"+ownTemporaries) {
		return "prelet's own temporaries begin with " + ownTemporaries
	}
	for _, dir := range unitFolders {
		rest, below := strings.CutPrefix(p, dir+"/")
		if below && slices.ContainsFunc(strings.Split(rest, "/"), isOwnUnit) {
			return "it is a unit of prelet's, or changes one"
		}
	}
	return ""
}

// matches says whether a pattern matches a path or a folder above it.
func matches(pattern, p string) bool {
	for ; p != "/"; p = path.Dir(p) {
		if ok, err := path.Match(pattern, p); ok && err == nil {
			return true
		}
	}
	return false
}

func isOwnUnit(name string) bool {
	for _, suffix := range []string{".d", ".wants", ".requires", ".upholds"} {
		if unit, ok := strings.CutSuffix(name, suffix); ok && slices.Contains(ownUnits, unit) {
			return true
		}
	}
	return slices.Contains(ownUnits, name)
}

// checkFileMode takes the permissions of a file.
func checkFileMode(s string) error {
	n, err := parseMode(s)
	if err == nil && n > 0o777 {
		err = fmt.Errorf("%q has setuid, setgid or the sticky bit: prelet writes configuration, and the unit may not set them. Write \"%04o\"", s, n&0o777)
	}
	return err
}

// checkFolderMode takes the permissions of a folder, which may be sticky.
func checkFolderMode(s string) error {
	n, err := parseMode(s)
	if err == nil && n&0o6000 != 0 {
		err = fmt.Errorf("%q has setuid or setgid: the unit may not set them. Write \"%04o\"", s, n&0o1777)
	}
	return err
}

func parseMode(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	switch {
	case err != nil || n > 0o7777 || len(s) < 3:
		return 0, fmt.Errorf("%q is no mode; write it octal, as \"0644\"", s)
	case n == 0:
		return 0, fmt.Errorf("%q keeps nobody out that \"0600\" does not: root reads it all the same. Write that, or \"0400\"", s)
	}
	return n, nil
}
