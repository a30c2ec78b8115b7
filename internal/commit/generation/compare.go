package generation

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// Comparison is what a commit of a proposal would do.
type Comparison struct {
	Entries []Entry // what is no longer declared first, then the proposal's targets in their order
	Changed bool    // some target would change; else Begin is ErrNothing (without Force)
	// Adopts says that no target would change, and that no generation in place records them as they are: there is
	// none, its state was lost, or the files are those of another one. Then Adopt makes a generation of them.
	Adopts bool
	// Lost are the targets of the generation in place whose bytes from before prelet no generation has undamaged: they
	// count as adopted as they are now, and nothing goes back to what they were.
	Lost []string

	seen    []seen           // by entry
	parents []bool           // by entry: missing folders above may be made
	parent  int              // generation in place, or 0
	made    []string         // folders that the generations before made
	ours    map[string]Entry // of the generation in place
	adopted bool             // to be adopted, not published
	bytes   map[string][]byte
}

// Observe looks at one target, following no link. A file has its content, MaxContent bytes at most; something that is
// neither file nor folder, or is reached over a link, is an error.
func (s *Store) Observe(p string) (State, []byte, error) {
	o, err := s.tree.observe(p)
	return o.state, o.content, err
}

// Compare tells what Begin would do, and writes nothing. It needs no lock.
func (s *Store) Compare(p Proposal) (*Comparison, error) {
	if err := s.checkProposal(p); err != nil {
		return nil, err
	}
	m, st, err := s.current()
	if err != nil {
		return nil, err
	}
	c := &Comparison{bytes: map[string][]byte{}, ours: map[string]Entry{}}
	var inPlace []Entry
	if m != nil {
		c.parent, c.made = m.Gen, m.Folders
		inPlace, c.Lost = s.liveKnown(m, st)
		for _, e := range inPlace {
			c.ours[e.Path] = e
		}
	}
	declared := map[string]bool{}
	for _, t := range p.Targets {
		declared[t.Path] = true
	}
	for _, e := range inPlace {
		if !declared[e.Path] {
			retired := st != nil && slices.Contains(st.Retired, e.Path)
			c.drop(s, e, m.Gen, retired)
		}
	}
	for _, t := range p.Targets {
		if err := c.declare(s, t, c.ours); err != nil {
			return nil, err
		}
	}
	for _, e := range c.Entries {
		c.Changed = c.Changed || e.changes()
	}
	c.Adopts = len(p.Targets) > 0 && !c.Changed && (m == nil || c.isElsewhere())
	return c, nil
}

// isElsewhere says whether a target is not as the generation in place has made it. What that one removed, and the
// proposal does not declare, does not count: somebody else may make it again, as the kubelet does with its state.
func (c *Comparison) isElsewhere() bool {
	for i, e := range c.Entries {
		was, ok := c.ours[e.Path]
		if !ok || was.CreateOnly || e.Dropped && was.New.Kind == Absent {
			continue
		}
		if !was.New.Equal(c.seen[i].state) {
			return true
		}
	}

	return false
}

// live are the targets that a generation has in place; what it retired is absent.
func live(m *manifest, st *status) []Entry {
	var out []Entry
	for _, e := range m.Entries {
		if e.Dropped {
			continue
		}
		if st != nil && slices.Contains(st.Retired, e.Path) {
			e.New = State{}
		}
		out = append(out, e)
	}
	return out
}

// liveKnown is live, with the targets whose bytes from before prelet are lost as if they were adopted now. lost are
// their paths.
func (s *Store) liveKnown(m *manifest, st *status) (out []Entry, lost []string) {
	out = live(m, st)
	for i := range out {
		e := &out[i]
		if e.Original.Kind != File {
			continue
		}
		if _, err := s.Content(e.Original.SHA256); err == nil {
			continue
		}

		now, err := s.tree.observe(e.Path)
		if err == nil && now.state.Kind == File && now.state.SHA256 == e.Original.SHA256 {
			continue // it is as it was
		}
		e.Original, e.Adopted = now.state, m.Gen
		lost = append(lost, e.Path)
	}

	return out, lost
}

func (e Entry) changes() bool {
	switch e.Action {
	case ActionCreate, ActionUpdate, ActionDelete, ActionRestore:
		return true
	}
	return false
}

func (c *Comparison) add(e Entry, o seen, parents bool) {
	c.Entries = append(c.Entries, e)
	c.seen = append(c.seen, o)
	c.parents = append(c.parents, parents)
}

// declare compares one target of the proposal.
func (c *Comparison) declare(s *Store, t Target, ours map[string]Entry) error {
	o, err := s.tree.observe(t.Path)
	if err != nil {
		return err
	}
	if t.Seen != nil && !t.Seen.Equal(o.state) {
		return changed(t.Path)
	}
	e := Entry{
		Path: t.Path, Old: o.state, Original: o.state, CreateOnly: t.CreateOnly, Secret: t.Secret, Mount: t.Mount,
	}
	if was, ok := ours[t.Path]; ok {
		e.Original, e.Adopted, e.Mount = was.Original, was.Adopted, cmp.Or(t.Mount, was.Mount)
		e.Drift = !t.CreateOnly && !was.New.Equal(o.state)
	}
	if t.Forget {
		e.Original = State{}
	}
	if t.CreateOnly && o.state.Kind != Absent {
		e.New, e.Action = o.state, ActionNone
		c.add(e, o, false)
		return nil
	}
	if o.state.Kind != Absent && t.Kind != Absent && o.state.Kind != t.Kind {
		return NewFault(fault.CannotWrite, "compare", t.Path, fmt.Errorf("a %s is planned where a %s is", t.Kind, o.state.Kind), "move it away, or choose another path")
	}
	left := o.state
	if was, ok := ours[t.Path]; ok && o.state.Kind != Absent {
		if left, err = s.leftOpen(was, o.state); err != nil {
			return err
		}
	}
	if e.New, err = s.resolveNew(t, o, left); err != nil {
		return err
	}
	switch {
	case e.Old.Equal(e.New):
		e.Action = ActionNone
		e.New.Xattrs = o.state.Xattrs
	case e.Old.Kind == Absent:
		e.Action = ActionCreate
	case e.New.Kind == Absent:
		e.Action = ActionDelete
		if e.Old.Kind == Dir && !s.empty(t.Path) {
			e.Action, e.New, e.Why = ActionKeep, e.Old, "the folder is not empty"
		}
	default:
		e.Action = ActionUpdate
	}
	c.add(e, o, t.Parents)
	return nil
}

// leftOpen returns the mode and the owner that a file of the generation in place has where the site leaves them open: those
// from before prelet, so that nothing of an earlier site stays. A file that prelet has made has the default mode, and its
// owner unless that is neither root nor the owner of the folder above: then an earlier site has set it.
func (s *Store) leftOpen(was Entry, now State) (State, error) {
	if was.Original.Kind == now.Kind {
		return was.Original, nil
	}

	left := now
	left.Mode = defaultMode(now.Kind)
	if now.UID == 0 && now.GID == 0 {
		return left, nil
	}
	above, err := s.ownerAbove(was.Path)
	left.UID, left.GID = above.UID, above.GID

	return left, err
}

// LeftOpen is leftOpen for a file of the generation in place, by its path; false: that has no such file.
func (s *Store) LeftOpen(path string, now State) (left State, ok bool) {
	was, ok := s.CurrentEntry(path)
	if !ok || was.CreateOnly || was.Dropped || now.Kind == Absent {
		return State{}, false
	}
	left, err := s.leftOpen(was, now)

	return left, err == nil
}

func defaultMode(k Kind) uint32 {
	if k == Dir {
		return 0o755
	}

	return 0o644
}

// resolveNew fills what the target leaves open from what it had, or from the folder above.
func (s *Store) resolveNew(t Target, o seen, left State) (State, error) {
	if t.Kind == Absent {
		return State{}, nil
	}
	n := State{Kind: t.Kind, Mode: uint32(t.Mode), UID: t.UID, GID: t.GID}
	if t.Kind == File {
		n.SHA256, n.Size = sum(t.Content), int64(len(t.Content))
		n.Xattrs = t.xattrs
		if n.Xattrs == nil {
			n.Xattrs = o.state.Xattrs
		}
	}
	if t.Mode == Keep {
		switch {
		case t.Secret:
			n.Mode = 0o600
		case left.Kind != Absent:
			n.Mode = left.Mode
		default:
			n.Mode = defaultMode(t.Kind)
		}
	}
	owner := left
	if owner.Kind == Absent && (t.UID == Keep || t.GID == Keep) {
		var err error
		if owner, err = s.ownerAbove(t.Path); err != nil {
			return State{}, err
		}
	}
	if t.UID == Keep {
		n.UID = owner.UID
	}
	if t.GID == Keep {
		n.GID = owner.GID
	}
	return n, nil
}

// ownerAbove is the state of the nearest folder above p that exists.
func (s *Store) ownerAbove(p string) (State, error) {
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		o, err := s.tree.observe(d)
		if err != nil || o.state.Kind != Absent {
			return o.state, err
		}
	}
	o, err := observeAt(s.tree.root, ".")
	return o.state, err
}

func (s *Store) empty(p string) bool {
	f, err := s.tree.open(p)
	if err != nil {
		return false
	}
	defer f.close()
	n, err := names(f)
	return err == nil && len(n) == 0
}

// drop compares a target that the generation in place has and the proposal no longer: it is put back as it was before us,
// unless somebody changed it since.
func (c *Comparison) drop(s *Store, was Entry, gen int, retired bool) {
	e := Entry{
		Path: was.Path, Action: ActionKeep, Old: was.New, New: was.New, Original: was.Original,
		CreateOnly: was.CreateOnly, Secret: was.Secret, Dropped: true, Adopted: was.Adopted,
	}
	o, err := s.tree.observe(was.Path)
	if err != nil {
		e.Why = "it is no longer a file or folder of ours: " + err.Error()
		c.add(e, o, false)
		return
	}
	e.Old, e.New = o.state, o.state
	switch {
	case was.CreateOnly:
		e.Why = "what is written only once stays"
	case was.Adopted != 0 && o.state.Kind != Absent:
		e.Drift = !o.state.Equal(was.New)
		e.Why = fmt.Sprintf("what it was before generation %d adopted it is not known", was.Adopted)
	case o.state.Equal(was.Original), was.Adopted != 0:
		e.Action = ActionNone
	case !o.state.Equal(was.New):
		e.Drift = true
		e.Why = fmt.Sprintf("it was changed since generation %d", gen)
	case retired:
		e.Action = ActionNone
	default:
		e.New, e.Action = was.Original, ActionRestore
		if was.Original.Kind == Absent {
			e.Action = ActionDelete
		}
		if was.Original.Kind != Absent && o.state.Kind != Absent && was.Original.Kind != o.state.Kind {
			e.New, e.Action, e.Why = o.state, ActionKeep, fmt.Sprintf("it was a %s before and is a %s now", was.Original.Kind, o.state.Kind)
		}
	}
	c.add(e, o, true)
}

func changed(p string) error {
	return NewFault(fault.CannotWrite, "compare", p, ErrChanged, "see who writes to it, and run again")
}

// checkProposal refuses what cannot be meant, before anything is looked at.
func (s *Store) checkProposal(p Proposal) error {
	own := s.ownPath()
	files := map[string]Kind{}
	for _, t := range p.Targets {
		fail := func(err error) error {
			return NewFault(fault.CannotWrite, "plan", t.Path, err, "mend the site")
		}
		if err := checkPath(t.Path); err != nil {
			return fail(err)
		}
		if _, twice := files[t.Path]; twice {
			return fail(errors.New("it is named twice"))
		}
		files[t.Path] = t.Kind
		if own != "" && (t.Path == own || above(own, t.Path)) {
			return fail(errors.New("it lies in prelet's own folder"))
		}
		if strings.HasPrefix(path.Base(t.Path), ".prelet-") {
			return fail(errors.New("names that begin with .prelet- are those of temporaries"))
		}
		if t.Kind != File && t.Kind != Dir && t.Kind != Absent {
			return fail(fmt.Errorf("unknown kind %q", t.Kind))
		}
		if t.Forget && t.Kind != Absent {
			return fail(errors.New("what is to be there cannot be forgotten"))
		}
		if t.Kind != File && t.Content != nil || len(t.Content) > MaxContent {
			return fail(fmt.Errorf("content of %d bytes for a %s (a file may have %d)", len(t.Content), t.Kind, MaxContent))
		}
		if t.Mode != Keep && (t.Mode < 0 || t.Mode > 0o7777) || t.UID < Keep || t.GID < Keep {
			return fail(fmt.Errorf("mode %o, owner %d:%d", t.Mode, t.UID, t.GID))
		}
	}
	for p := range files {
		for d := path.Dir(p); d != "/"; d = path.Dir(d) {
			if k, ok := files[d]; ok && k != Dir {
				return NewFault(fault.CannotWrite, "plan", p, fmt.Errorf("%s above it is not planned as a folder", d), "mend the site")
			}
		}
	}
	return checkBlobs(p.Blobs)
}

func checkBlobs(blobs map[string][]byte) error {
	for name, b := range blobs {
		if !blobName.MatchString(name) || reserved(name) || len(b) > MaxContent {
			return NewFault(fault.Internal, "plan", name, errors.New("a generation cannot keep a blob of this name or size"), "")
		}
	}
	return nil
}

// ownPath is the state folder as a target path, or "" when it lies outside of the root.
func (s *Store) ownPath() string {
	root := filepath.Clean("/" + s.o.Root)
	if root == "/" {
		return s.o.Dir
	}
	if !above(root, s.o.Dir) {
		return ""
	}
	return strings.TrimPrefix(s.o.Dir, root)
}
