package faults

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/test/faults/scenario"
)

// order reads a trace and says where it breaks a rule of durability. A disk shows a forgotten fsync only when it is
// unlucky: ext4 has one journal for all of it, so that any fsync takes the renames of every folder along.
//
//	R1  a file is fsynced between its last change and its rename
//	R2  nothing in the target tree changes while the staged generation, which lists it, or the journal, is not durable
//	R3  COMMIT is recorded when the generation and the journal are durable; what follows it when the bytes and names of
//	    the targets are as well; and the journal ends when everything is
//	R4  at the end everything is durable, but for what was removed
//	R5  a target is never opened for writing: it is renamed over
//	R6  the gate is shut before the first target changes, and opened after the last is durable
//	R7  targets are renamed in the order in which they were proposed
type order struct {
	root, run string
	proposed  []string
	files     map[string]bool              // changed and not fsynced
	folders   map[string]map[string]change // by folder: names that changed since its fsync
	committed bool
	open      bool // the gate
	last      int  // place in proposed of the last target that was renamed
	broken    broken
}

// change is what became of a name.
type change string

const (
	made    change = "made"
	removed change = "removed"
	dressed change = "of another mode or owner"
)

// check reads a whole trace. open says whether the gate was open before.
func (o order) check(calls []call, open bool) broken {
	o.files, o.folders, o.open, o.last = map[string]bool{}, map[string]map[string]change{}, open, -1
	for _, c := range calls {
		if c.failed {
			continue
		}
		o.gate(c)
		if c.below(o.root) {
			o.step(c)
		}
	}
	if d := o.pending(func(_ string, c change) bool { return c == removed }); d != nil {
		o.broken.add("R4: at the end not durable: %v", d)
	}
	return o.broken
}

func (o *order) rel(p string) string { return strings.TrimPrefix(p, o.root) }

func (o *order) step(c call) {
	all := c.paths()
	p := all[len(all)-1]
	if !c.changes() {
		return
	}
	switch c.name {
	case "fsync", "fdatasync":
		delete(o.files, p)
		delete(o.folders, p)
		return
	case "write", "pwrite64", "fchmod", "fchown", "fsetxattr", "ftruncate", "fallocate":
		o.files[p] = true
		return
	}
	o.before(c, p)
	dir := path.Dir(p)
	if o.folders[dir] == nil {
		o.folders[dir] = map[string]change{}
	}
	switch c.name {
	case "openat", "openat2":
		if strings.Contains(c.args, "O_CREAT") {
			o.files[p] = true
		}
	case "renameat", "renameat2":
		if o.files[all[0]] {
			o.broken.add("R1: %s is renamed to %s and was not fsynced since it changed", o.rel(all[0]), o.rel(p))
		}
		delete(o.files, all[0])
		o.folders[dir][path.Base(all[0])] = removed
	case "unlinkat":
		delete(o.files, p)
		delete(o.folders, p)
		o.folders[dir][path.Base(p)] = removed
		return
	case "fchmodat", "fchownat":
		o.folders[p] = map[string]change{".": dressed}
		return
	}
	o.folders[dir][path.Base(p)] = made
}

// before looks at a change of a name while it has not happened yet.
func (o *order) before(c call, p string) {
	rel := o.rel(p)
	inState := ours(rel)
	above := strings.HasPrefix(stateDir, rel)
	journal := rel == stateDir+"/journal.json"
	switch {
	case journal && (c.name == "renameat" || c.name == "renameat2"):
		if d := o.pending(o.phase()); d != nil {
			o.broken.add("R3: the journal is written while this is not durable: %v", d)
		}
		o.committed = true
	case journal && c.name == "unlinkat":
		// The old name of a generation that has its new one for good may come back: recovery takes it away.
		if d := o.pending(
			func(p string, c change) bool { return c == removed && strings.HasSuffix(p, ".staged") },
		); d != nil {
			o.broken.add("R3: the journal ends while this is not durable: %v", d)
		}
	case inState || above:
		return
	default:
		for _, d := range o.pending(func(p string, c change) bool {
			// The staged journal is renamed, so its first name need not be durable.
			staged := strings.HasSuffix(p, ".staged") && (c == "" || path.Dir(p) != stateDir)
			return c == removed || !staged && p != stateDir+"/journal.json"
		}) {
			o.broken.add("R2: %s %s, and %s is not durable", c.name, rel, d)
		}
		if c.creates() && !temporary.MatchString(p) {
			o.broken.add("R5: %s is opened for writing", rel)
		}
		if strings.HasPrefix(c.name, "rename") {
			o.target(rel)
		}
	}
}

// target looks at a rename over a target.
func (o *order) target(rel string) {
	if o.open {
		o.broken.add("R6: %s is renamed over while the gate is open", rel)
	}
	i := slices.Index(o.proposed, rel)
	if i < 0 {
		return
	}
	if i < o.last {
		o.broken.add("R7: %s is renamed after %s", rel, o.proposed[o.last])
	}
	o.last = i
}

// gate follows the gate's file.
func (o *order) gate(c call) {
	if o.run == "" || len(c.paths()) == 0 {
		return
	}
	all := c.paths()
	if all[len(all)-1] != o.run+"/kubelet.env" {
		return
	}
	switch c.name {
	case "unlinkat":
		o.open = false
	case "renameat", "renameat2":
		o.open = true
		if d := o.pending(o.phase()); d != nil {
			o.broken.add("R6: the gate is opened while this is not durable: %v", d)
		}
	}
}

// phase says what need not be durable yet: before COMMIT temporaries and new folders, which are made again from the
// generation; after it the end of that one's old name.
func (o *order) phase() func(p string, c change) bool {
	if !o.committed {
		return func(p string, c change) bool { return !ours(p) || c != "" && path.Dir(p) == stateDir }
	}
	return func(p string, c change) bool { return path.Dir(p) == stateDir || ours(p) && c == removed }
}

// pending lists what is not durable, without what is spared. The lock always is: it is worth nothing after a power
// cut, and the space that it holds is reserved again.
func (o *order) pending(spared func(p string, c change) bool) (out []string) {
	add := func(p string, c change) {
		if p = o.rel(p); p != stateDir+"/lock" && (spared == nil || !spared(p, c)) {
			out = append(out, strings.TrimSpace(p+" "+string(c)))
		}
	}
	for p := range o.files {
		add(p, "")
	}
	for d, names := range o.folders {
		for n, c := range names {
			add(path.Join(d, n), c)
		}
	}
	slices.Sort(out)
	return out
}

// order are the rules for the step of a stage.
func (s *stage) order(d *disk) order {
	o := order{root: d.root(), run: s.run()}
	if s.Next != nil {
		for _, t := range s.Next.Targets {
			o.proposed = append(o.proposed, t.Path)
		}
	}
	return o
}

// TestOrder reads the order of fsyncs and renames of every scenario's step.
func TestOrder(t *testing.T) {
	writer := build(t, "writer", "./writer")
	for _, sc := range scenario.All() {
		t.Run(sc.Name, func(t *testing.T) {
			s := prepare(t, writer, filesystems[0], sc)
			d := newDisk(t, s.filesystem, s.dir)
			for _, b := range s.order(d).check(s.calls, len(sc.Earlier) > 0) {
				t.Error(b)
			}
		})
	}
}
