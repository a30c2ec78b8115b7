package write

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/lang/value"
)

// refusal is a reason why sites may not write some places. A place that ends in "/" is a folder with all below it,
// one with a "*" is a pattern of package path.
type refusal struct {
	why    string
	places []string
}

func listRefusals() []refusal {
	return []refusal{
		{"it is the kernel's, not a place for files", []string{"/proc/", "/sys/", "/dev/"}},
		{
			"it is in prelet's own folder, which contains the gate; choose a path outside of it",
			[]string{"/run/prelet/"},
		},
		{
			"it is in prelet's own folder, which contains the journal; choose a path outside of it",
			[]string{"/var/lib/prelet/"},
		},
		{
			"it is in prelet's own folder: a site that writes a site makes the next boot another one",
			[]string{"/etc/prelet/"},
		},
		{"it is in prelet's own folder of the image", []string{"/usr/lib/prelet/", "/usr/local/lib/prelet/"}},
		{"it is prelet's program", []string{"/usr/bin/prelet*", "/usr/local/bin/prelet*"}},
		{
			"it is a file of prelet's package",
			[]string{"/usr/lib/tmpfiles.d/prelet.conf", "/usr/lib/sysusers.d/prelet.conf"},
		},
		{
			"it hides a file of prelet's package",
			[]string{
				"/etc/tmpfiles.d/prelet.conf", "/etc/sysusers.d/prelet.conf",
				"/usr/local/lib/tmpfiles.d/prelet.conf", "/usr/local/lib/sysusers.d/prelet.conf",
				"/run/tmpfiles.d/prelet.conf", "/run/sysusers.d/prelet.conf",
			},
		},
		{"systemd puts the credentials of units there", []string{"/run/credentials/"}},
		{
			"systemd takes credentials from there, and a run must not read credentials that a run has written",
			[]string{
				"/run/credstore/", "/run/credstore.encrypted/", "/etc/credstore/", "/etc/credstore.encrypted/",
				"/usr/lib/credstore/", "/usr/lib/credstore.encrypted/",
			},
		},
		{"it is the key of this machine's credentials", []string{"/var/lib/systemd/credential.secret"}},
		{"it identifies this machine", []string{"/etc/machine-id", "/var/lib/dbus/machine-id"}},
		{
			"the kubelet writes it when it joins: it identifies this node",
			[]string{
				"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/pki/kubelet-client*",
				"/var/lib/kubelet/pki/kubelet-server*",
			},
		},
		{
			"the kubelet stores there which pods and devices run on this node",
			[]string{"/var/lib/kubelet/*_state", "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"},
		},
	}
}

// listAliases returns folders that are links to others on today's systems, each with the other.
func listAliases() [][2]string {
	return [][2]string{
		{"/bin/", "/usr/bin/"},
		{"/sbin/", "/usr/sbin/"},
		{"/lib/", "/usr/lib/"},
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
	}
	if why := explainRefusal(p); why != "" {
		return fmt.Errorf("%q cannot be written by a site: %s", p, why)
	}

	return nil
}

// explainRefusal returns why no site may write a path; "" if sites may write it.
func explainRefusal(p string) string {
	for _, a := range listAliases() {
		if rest, ok := strings.CutPrefix(p, a[0]); ok {
			p = a[1] + rest
		}
	}

	isAtPath := func(place string) bool {
		return isAt(place, p)
	}
	for _, r := range listRefusals() {
		if slices.ContainsFunc(r.places, isAtPath) {
			return r.why
		}
	}
	if strings.Contains(p, "/"+ownTemporaries) {
		return "prelet's own temporaries begin with " + ownTemporaries
	}
	for _, dir := range listUnitFolders() {
		rest, ok := strings.CutPrefix(p, dir+"/")
		if ok && slices.ContainsFunc(strings.Split(rest, "/"), isOwnUnit) {
			return "it is a unit of prelet's, or changes one"
		}
	}

	return ""
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
