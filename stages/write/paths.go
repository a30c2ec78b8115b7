package write

import (
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/prelet/prelet/internal/model/texts"
)

// pathsText is docs/reference/paths.md. Its tables are the places that are refused.
//
//go:embed paths.txt
var pathsText string

// PathsPage returns docs/reference/paths.md.
func PathsPage() string {
	return pathsText
}

// The tables of the page, by the headings above them.
const (
	ownPlaces    = "Refused places"      // no block may write them
	systemPlaces = "Files of the system" // only a file or a directory block with force may write them
	rootFolders  = "Modes"               // only a directory block with force gives them to other users
)

// refusal is a row of a table: a reason why sites may not write some places. A place that ends in "/" is a folder with
// all below it, one with a "*" is a pattern of package path. One without a slash is a unit, or a part of a name.
type refusal struct {
	why    string
	places []string
}

var tables = sync.OnceValue(func() map[string][]refusal {
	out := map[string][]refusal{}
	heading := ""
	for line := range strings.Lines(pathsText) {
		if text, isHeading := strings.CutPrefix(line, "## "); isHeading {
			heading = strings.TrimSpace(text)
		}

		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		r := refusal{why: strings.TrimSpace(cells[2])}
		for _, quoted := range codeSpan().FindAllStringSubmatch(cells[1], -1) {
			r.places = append(r.places, quoted[1])
		}
		out[heading] = append(out[heading], r)
	}

	return out
})

var codeSpan = texts.LazyRegexp("`([^`]+)`")

// The kubelet's use of the files of a folder that its settings name.
const (
	runsPods     = "the kubelet runs the pods in them, which may be root on the host"
	runsPrograms = "the kubelet runs them as root"
)

// explainRootFolder returns why a folder must stay root's; "" if it may be another user's. The kubelet's settings name
// some of these folders.
func (r *renderer) explainRootFolder(p string) string {
	folders := slices.Clone(tables()[rootFolders])
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
	case strings.HasPrefix(p, "~"):
		return fmt.Errorf("%q is not an absolute path: write the home folder itself, such as \"/root/…\"", p)
	case strings.ContainsAny(p, `:\`) && !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not an absolute path: write one that begins with /, such as \"/etc/motd\"", p)
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not an absolute path: write %q", p, path.Clean("/"+p))
	case path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not a clean path: write %q, without . and .. and double slashes", p, path.Clean(p))
	case strings.ContainsFunc(p, func(r rune) bool {
		return !texts.IsVisible(r)
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
		return r != ' ' && !texts.IsVisible(r)
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
	if why := findRefusal(tables()[ownPlaces], p); why != "" {
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

	return findRefusal(tables()[systemPlaces], p)
}

// isSystemUnit reports whether systemd, a login or D-Bus needs a unit, or an instance of it. Drop-ins only add to
// them. The mounts are those that fstab has on many machines. Source: systemd.special(7).
func isSystemUnit(name string) bool {
	template, instance, _ := strings.Cut(name, "@")
	if i := strings.LastIndexByte(instance, '.'); i >= 0 {
		template += "@" + instance[i:]
	}

	return isNamed(systemPlaces, template)
}

// isNamed reports whether a place in a table of the page matches the name of a unit.
func isNamed(table, unit string) bool {
	return slices.ContainsFunc(tables()[table], func(r refusal) bool {
		return slices.ContainsFunc(r.places, func(place string) bool {
			isMatch, _ := path.Match(place, unit)
			return isMatch
		})
	})
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

// isOwnUnit reports whether a name is a unit of prelet's, or a folder that changes one.
func isOwnUnit(name string) bool {
	unit := name
	for _, suffix := range []string{".d", ".wants", ".requires", ".upholds"} {
		unit = strings.TrimSuffix(unit, suffix)
	}

	return isNamed(ownPlaces, name) || isNamed(ownPlaces, unit)
}

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
