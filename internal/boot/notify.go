package boot

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
)

// UnitChange is one unit other than the kubelet's, with the managed files that notify it.
type UnitChange struct {
	node.Unit          // Stage is "" where no stage of the site names the unit
	IsSystem  bool     // from systemPaths: it also applies what is not the site's, so its failure degrades and never rolls back
	Files     []string // managed files that notify it, sorted
	Because   []string // the changes that it is acted on for, in words; none: it is not
}

// systemPath is a folder whose files systemd applies. Source: sysctl.d(5), modules-load.d(5), tmpfiles.d(5), udev(7).
type systemPath struct {
	folder, suffix string
	old            string // a file that distributions link into the folder; "" for none
	unit, action   string
	stays          string                   // what stays in force until the next boot when it is removed
	key            func(line string) string // what a line that is no comment sets, so that another line may set it too
}

// ActionCreate runs systemd-tmpfiles for the files themselves. The unit that does so for all files also removes, which
// would be wrong on a running node.
const ActionCreate = "create"

const (
	defaultUnitTimeout = 60_000 // milliseconds, as in the restart stage
	defaultUnitSettle  = 2_000
)

// listSystemPaths returns the table, in the order in which systemd applies the folders at boot.
func listSystemPaths() []systemPath {
	return []systemPath{
		{"modules-load.d", ".conf", "/etc/modules", "systemd-modules-load.service", "restart", "the module stays loaded", strings.TrimSpace},
		{"sysctl.d", ".conf", "/etc/sysctl.conf", "systemd-sysctl.service", "restart", "the value stays set", readSysctlKey},
		{"tmpfiles.d", ".conf", "", "systemd-tmpfiles", ActionCreate, "what it made stays", readTmpfilesPath},
		{"udev/rules.d", ".rules", "", "systemd-udevd.service", "reload", "what it did to devices stays", strings.TrimSpace},
	}
}

// findSystemPath returns the row for a file; nil if there is none.
func findSystemPath(file string) *systemPath {
	for _, p := range listSystemPaths() {
		if file == p.old {
			return &p
		}
		for _, top := range []string{"/etc/", "/run/", "/usr/lib/", "/usr/local/lib/"} {
			if path.Dir(file) == top+p.folder && strings.HasSuffix(file, p.suffix) {
				return &p
			}
		}
	}

	return nil
}

// notified is what follows a change of one file.
type notified struct {
	kubelet bool
	units   []UnitChange
}

// findNotified returns what a file notifies: what the site says, or by default the kubelet for the files that it reads,
// systemd for those that it applies, and else nothing. stored is what the generation in place says of a file that the
// site no longer declares.
func findNotified(n node.Node, f node.File, stored []string) (out notified) {
	kubeletUnit := kubeletUnitOf(n)

	switch {
	case f.Notify != nil:
		for _, name := range f.Notify {
			i := slices.IndexFunc(n.Units, func(u node.Unit) bool { return u.Stage == name })
			switch {
			case i >= 0:
				out.units = append(out.units, UnitChange{Unit: n.Units[i]})
			case n.Activation != nil && n.Activation.Stage == name:
				out.kubelet = true
			}
		}
	case len(stored) > 0:
		for _, words := range stored {
			action, unit, _ := strings.Cut(words, " ")
			i := slices.IndexFunc(n.Units, func(u node.Unit) bool { return u.Unit == unit })
			switch {
			case unit == kubeletUnit:
				out.kubelet = true
			case i >= 0:
				out.units = append(out.units, UnitChange{Unit: n.Units[i]})
			default:
				isSystem := slices.ContainsFunc(listSystemPaths(), func(p systemPath) bool { return p.unit == unit })
				out.units = append(out.units, UnitChange{Unit: defaultUnit(unit, action), IsSystem: isSystem})
			}
		}
	case f.Purpose == "directory":
	case f.Purpose != "file":
		out.kubelet = true
	case isReadByKubelet(n, kubeletUnit, f.Path):
		out.kubelet = true
	default:
		if p := findSystemPath(f.Path); p != nil {
			out.units = []UnitChange{{Unit: defaultUnit(p.unit, p.action), IsSystem: true}}
		}
	}

	return out
}

func defaultUnit(unit, action string) node.Unit {
	return node.Unit{Unit: unit, Action: action, TimeoutMillis: defaultUnitTimeout, SettleMillis: defaultUnitSettle}
}

func kubeletUnitOf(n node.Node) string {
	if n.Activation == nil {
		return "kubelet.service"
	}

	return n.Activation.Unit
}

// isReadByKubelet reports whether the kubelet reads a file when it starts: its unit and the drop-ins of that, what is
// below its folder and --config-dir, and what a flag or a field of its configuration names, itself or by a folder above it. Static
// pods are read while it runs.
func isReadByKubelet(n node.Node, unit, file string) bool {
	folder := path.Base(path.Dir(file))
	if strings.Contains(file, "/systemd/") && (path.Base(file) == unit || folder == unit+".d" || folder == "service.d") {
		return true
	}

	for _, place := range []string{"/var/lib/kubelet", "/etc/kubernetes/kubelet.conf.d", "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		if covers(place, file) {
			return true
		}
	}

	staticPods, _ := n.Config["staticPodPath"].(string)
	for _, f := range n.Flags {
		if f.Name == "pod-manifest-path" {
			staticPods = f.Value
		}
	}
	if covers(staticPods, file) {
		return false
	}
	if covers(named(n.Config), file) {
		return true
	}

	return slices.ContainsFunc(n.Flags, func(f node.Flag) bool { return covers(f.Value, file) })
}

// named returns the texts in a configuration.
func named(v any) (out []string) {
	switch x := v.(type) {
	case string:
		return []string{x}
	case []any:
		for _, e := range x {
			out = append(out, named(e)...)
		}
	case map[string]any:
		for _, e := range x {
			out = append(out, named(e)...)
		}
	}

	return out
}

// covers reports whether a path that is named is a file, or a folder above it. It takes one of them or a list.
func covers[T string | []string](name T, file string) bool {
	switch x := any(name).(type) {
	case []string:
		return slices.ContainsFunc(x, func(s string) bool { return covers(s, file) })
	case string:
		x = strings.TrimSuffix(x, "/")
		return strings.HasPrefix(x, "/") && (x == file || strings.HasPrefix(file, x+"/"))
	}

	return false
}

// notify returns what follows the changes: the kubelet's restart, and the units in the order in which they are acted
// on, systemd's first. It completes each change with what its file notifies.
func notify(n node.Node, aside *Aside, changes []Change, stored map[string][]string) (Restart, []UnitChange) {
	restart := Restart{Unit: kubeletUnitOf(n)}
	var units []UnitChange

	for i := range changes {
		c := &changes[i]
		if c.File.Purpose == purposeIdentity { // all of them are one reason, below
			c.Notifies, restart.Needed = []string{restart.Unit}, true
			continue
		}

		to := findNotified(n, c.File, stored[c.File.Path])
		if to.kubelet {
			c.Notifies = append(c.Notifies, restart.Unit)
		}
		because := ""
		if c.Changes() {
			because = c.File.Path + " " + describeAction(c.Action)
			c.Stays = findStaying(*c)
		}
		if to.kubelet && because != "" {
			restart.Needed = true
			restart.Because = append(restart.Because, because)
		}
		for _, u := range to.units {
			c.Notifies = append(c.Notifies, u.Unit.Unit)
			why := because
			if c.Action == "delete" && u.Action == ActionCreate {
				why = "" // there is nothing to make
			}
			units = addUnit(units, u, c.File.Path, why)
		}
	}
	if aside != nil {
		restart.Because = append(restart.Because, "the identity of "+aside.describeOwner()+" is set aside")
	}
	slices.SortStableFunc(units, func(a, b UnitChange) int { return cmp.Compare(rankUnit(n, a), rankUnit(n, b)) })

	return restart, units
}

func addUnit(units []UnitChange, u UnitChange, file, because string) []UnitChange {
	i := slices.IndexFunc(units, func(x UnitChange) bool { return x.Unit.Unit == u.Unit.Unit })
	if i < 0 {
		i, units = len(units), append(units, u)
	}
	units[i].Files = append(units[i].Files, file)
	if because != "" {
		units[i].Because = append(units[i].Because, because)
	}

	return units
}

// rankUnit returns the place of a unit: systemd's in the order of the table, then those of the site in its order, then
// those that the site no longer names.
func rankUnit(n node.Node, u UnitChange) int {
	all := listSystemPaths()
	if i := slices.IndexFunc(all, func(p systemPath) bool { return u.IsSystem && p.unit == u.Unit.Unit }); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(n.Units, func(x node.Unit) bool { return x.Unit == u.Unit.Unit }); i >= 0 {
		return len(all) + i
	}

	return len(all) + len(n.Units)
}

// findStaying returns what a change takes out of a file and stays in force until the next boot; "" for nothing.
func findStaying(c Change) string {
	p := findSystemPath(c.File.Path)
	switch {
	case p == nil || c.File.Purpose != "file":
		return ""
	case c.Action == "delete":
		return p.stays + " until the next boot"
	case c.Action != "update" || c.Old.Private || len(c.File.Text.Secrets()) > 0:
		return ""
	}

	left := listSettings(p, c.File.Text.Template())
	var gone []string
	for _, s := range listSettings(p, c.Old.Text) {
		if !slices.Contains(left, s) && !slices.Contains(gone, s) {
			gone = append(gone, s)
		}
	}
	if len(gone) == 0 {
		return ""
	}

	return fmt.Sprintf("%s: %s until the next boot", strings.Join(gone, ", "), p.stays)
}

// listSettings returns what the lines of a file that systemd applies set. A backslash at its end continues a line.
func listSettings(p *systemPath, text string) (out []string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
			out = append(out, p.key(line))
		}
	}

	return out
}

// readSysctlKey returns the key of a line of sysctl.d. If the first separator of a key is a dot, dots and slashes are
// interchanged in it: net.ipv4.conf.eth0/1.forwarding is net/ipv4/conf/eth0.1/forwarding. Source: sysctl.d(5).
func readSysctlKey(line string) string {
	key, _, _ := strings.Cut(line, "=")
	key = strings.TrimPrefix(strings.TrimSpace(key), "-")
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '/' {
		return strings.NewReplacer(".", "/", "/", ".").Replace(key)
	}

	return key
}

// readTmpfilesPath returns the path of a line of tmpfiles.d. Source: tmpfiles.d(5).
func readTmpfilesPath(line string) string {
	if fields := strings.Fields(line); len(fields) > 1 {
		return fields[1]
	}

	return line
}

// checkUnits returns what is wrong with the units of a site together.
func checkUnits(n node.Node) (diags hcl.Diagnostics) {
	const most = 16
	if len(n.Units) > most {
		diags = append(diags, origin.Error(fault.Limit, n.Units[most].Range, "Too many units",
			"This is number %d; a site may act on %d units beside the kubelet's.", most+1, most))
	}
	for i, u := range n.Units {
		if u.Unit == kubeletUnitOf(n) {
			diags = append(diags, origin.Error(fault.Conflict, u.Range, "The kubelet's unit",
				"Only the stage named \"kubelet\" says what happens with %s. Give this stage that name, and leave `unit` out or there.", u.Unit))
		}
		if first := slices.IndexFunc(n.Units[:i], func(x node.Unit) bool { return x.Unit == u.Unit }); first >= 0 {
			at := n.Units[first].Range
			diags = append(diags, origin.Error(fault.Conflict, u.Range, "Two stages for "+u.Unit,
				"The first is restart.%s, at %s:%d:%d. Remove one of them; any number of files may notify one stage.", n.Units[first].Stage, at.Filename, at.Start.Line, at.Start.Column))
		}
	}

	return diags
}
