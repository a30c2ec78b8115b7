package generation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Comparison is the difference between a proposal and the disk.
type Comparison struct {
	Entries []Entry // first dropped targets, then the proposal's in their order
	Changed bool    // a target would change
	// Unrecorded reports that no target would change, and that the generation in place does not record the targets as
	// they are: there is none, or somebody else made the files. Then a commit makes a generation, and touches none.
	Unrecorded bool
	// WithoutSetID has a sentence for each target that is restored without its setuid and setgid, with the next step.
	WithoutSetID []string

	seen     []observation    // by entry
	parent   int              // generation in place, or 0
	restores int              // Proposal.ContentsOf
	made     []string         // folders that the generations before created
	ours     map[string]Entry // of the generation in place
	bytes    map[string][]byte
	mayStay  map[string]bool // by path: see Target.MayStay
}

// Observe returns the state of one target without following a link, and the content of a file of at most MaxContent
// bytes. It returns an error for everything else, and for a target below a link.
func (s *Store) Observe(p string) (FileState, []byte, error) {
	o, err := s.observe(p)

	return o.state, o.content, cmp.Or(err, wrapIO("observe", p, o.damage))
}

// Compare returns the changes that Stage would stage. It writes nothing and needs no lock.
func (s *Store) Compare(p Proposal) (*Comparison, error) {
	if err := s.checkProposal(p); err != nil {
		return nil, err
	}
	m, st, err := s.current()
	if err != nil {
		return nil, err
	}

	return s.compareWith(p, m, st, nil)
}

// compareWith compares a proposal with the disk, on which the targets of generation m (nil: none) are in place, and
// perhaps some of one whose commit was interrupted (nil: none).
func (s *Store) compareWith(p Proposal, m *manifest, st *status, interrupted *manifest) (*Comparison, error) {
	c := &Comparison{
		restores: p.ContentsOf,
		bytes:    map[string][]byte{},
		ours:     map[string]Entry{},
		mayStay:  map[string]bool{},
	}
	isDeclared := map[string]bool{}
	for _, t := range p.Targets {
		isDeclared[t.Path] = true
	}
	var inPlace, touched []Entry
	if m != nil {
		c.parent = m.Gen
		c.made = m.Folders
		inPlace = listInPlace(m, st)
	}
	if interrupted != nil {
		c.made = slices.Concat(c.made, interrupted.Folders, interrupted.Leaving)
		touched = listTouched(interrupted)
	}
	for i, e := range slices.Concat(inPlace, touched) {
		if _, isKnown := c.ours[e.Path]; isKnown {
			continue
		}
		c.ours[e.Path] = e
		if isDeclared[e.Path] {
			continue
		}
		isRetired := st != nil && slices.Contains(st.Retired, e.Path)
		c.addDropped(s, e, isRetired, i >= len(inPlace))
	}
	for _, t := range p.Targets {
		if err := c.addDeclared(s, t); err != nil {
			return nil, err
		}
	}

	c.Changed = slices.ContainsFunc(c.Entries, Entry.HasChange)
	isRecorded := m != nil && !c.isUnrecorded()
	c.Unrecorded = len(p.Targets) > 0 && !c.Changed && !isRecorded

	return c, nil
}

// ChangesNothing reports whether a commit of the compared proposal would change no target and record nothing new.
func (c *Comparison) ChangesNothing(p Proposal) bool { return !c.Changed && !c.Unrecorded && !p.Force }

// isUnrecorded reports whether a target differs from the generation in place. A target that this generation removed and
// the proposal does not declare does not count: another program, such as the kubelet, may create it again.
func (c *Comparison) isUnrecorded() bool {
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

// listInPlace returns the targets that a generation manages; the ones that it retired are absent.
func listInPlace(m *manifest, st *status) []Entry {
	var out []Entry
	for _, e := range m.Entries {
		if e.Dropped {
			continue
		}
		if st != nil && slices.Contains(st.Retired, e.Path) {
			e.New = FileState{}
		}
		out = append(out, e)
	}

	return out
}

// listTouched returns the targets that an interrupted commit may have changed. The original of each is its state before
// the commit. A dropped target belongs to an earlier commit, which this one takes back.
func listTouched(m *manifest) (out []Entry) {
	for _, e := range m.Entries {
		if !e.HasChange() {
			continue
		}
		if e.Dropped {
			e.New = e.Old
		} else {
			e.Original = keepable(e.Old)
		}
		e.CreateOnly = false // it is not in use yet
		out = append(out, e)
	}

	return out
}

// keepable returns the state to which a target can be restored: without its content a file is like none.
func keepable(was FileState) FileState {
	if was.IsUnreadable() {
		return FileState{}
	}

	return was
}

// HasChange reports whether the generation changed the target.
func (e Entry) HasChange() bool {
	switch e.Action {
	case ActionCreate, ActionUpdate, ActionDelete, ActionRestore:
		return true
	}

	return false
}

func (c *Comparison) add(e Entry, o observation) {
	c.Entries = append(c.Entries, e)
	c.seen = append(c.seen, o)
}

// addDeclared compares one target of the proposal.
func (c *Comparison) addDeclared(s *Store, t Target) error {
	was, isManaged := c.ours[t.Path]
	c.mayStay[t.Path] = t.MayStay && isManaged
	o, err := s.observe(t.Path)
	isOther := o.state.Kind != Absent && t.Kind != Absent && o.state.Kind != t.Kind
	if c.mayStay[t.Path] && (err != nil || isOther) {
		if t.Kind == File {
			c.bytes[was.New.SHA256] = t.Content
		}
		why := fmt.Sprintf("a %s is where a %s was", o.state.Kind, t.Kind)
		if err != nil {
			why = err.Error()
		}
		c.add(keepEntry(was, why), observation{state: was.New})
		return nil
	}
	if err != nil {
		return err
	}
	now := o.state
	if t.Seen != nil && !t.Seen.Equal(now) {
		return refuseChanged(t.Path)
	}

	e := c.newEntry(t, o)
	if t.CreateOnly && now.Kind != Absent {
		e.New = now
		e.Action = ActionNone
		c.add(e, o)
		return nil
	}
	if isOther {
		cause := fmt.Errorf("a %s is planned where a %s is", t.Kind, now.Kind)
		return refuse("compare", t.Path, cause, "move it away, or choose another path")
	}

	defaults := now
	if isManaged && now.Kind != Absent {
		if defaults, err = s.findDefaults(was, now); err != nil {
			return err
		}
	}
	if o.damage != nil && isManaged {
		now.Xattrs = was.New.Xattrs
	}
	if e.New, err = s.resolveTarget(t, now, defaults); err != nil {
		return err
	}
	if t.Kind == File {
		c.bytes[e.New.SHA256] = t.Content
	}
	if c.restores != 0 {
		c.dropSetID(&e, nodefile.Root(s.o.Root))
	}
	s.setAction(&e)
	c.add(e, o)

	return nil
}

// keepEntry returns the entry of a target that stays as it is and managed, with the reason.
func keepEntry(was Entry, why string) Entry {
	was.Action = ActionKeep
	was.Old = was.New
	was.Drift = true
	was.Why = why

	return was
}

// newEntry returns the entry of a target without its new state.
func (c *Comparison) newEntry(t Target, o observation) Entry {
	now := o.state
	e := Entry{
		Path:       t.Path,
		Old:        now,
		Original:   keepable(now),
		CreateOnly: t.CreateOnly,
		Secret:     t.Secret,
		Mount:      t.Mount,
	}
	if was, isManaged := c.ours[t.Path]; isManaged {
		e.Original = was.Original
		e.Mount = cmp.Or(t.Mount, was.Mount)
		e.Drift = !t.CreateOnly && !was.New.Equal(now)
	}
	if o.damage != nil {
		e.Why = o.damage.Error()
	}
	if t.Forget {
		e.Original = FileState{}
	}

	return e
}

// setAction sets the action that leads from the old to the new state.
func (s *Store) setAction(e *Entry) {
	switch {
	case e.Old.Equal(e.New):
		e.Action = ActionNone
		e.New.Xattrs = e.Old.Xattrs
	case e.Old.Kind == Absent:
		e.Action = ActionCreate
	case e.New.Kind != Absent:
		e.Action = ActionUpdate
	case e.Old.Kind == Dir && !s.isEmpty(e.Path):
		e.Action = ActionKeep
		e.New = e.Old
		e.Why = "the folder is not empty"
	default:
		e.Action = ActionDelete
	}
}

// findDefaults returns the mode and the owner of a managed file that the site does not set: those from before prelet,
// so that no setting of an earlier site stays. A file that prelet created has the default mode. It keeps the owner
// root; any other owner was set by an earlier site, and becomes that of the folder above.
func (s *Store) findDefaults(was Entry, now FileState) (FileState, error) {
	if was.Original.Kind == now.Kind {
		return was.Original, nil
	}

	defaults := now
	defaults.Mode = defaultMode(now.Kind)
	if now.UID == 0 && now.GID == 0 {
		return defaults, nil
	}
	above, err := s.findFolderAbove(was.Path)
	defaults.UID = above.UID
	defaults.GID = above.GID

	return defaults, err
}

// DefaultAttributes returns the mode and the owner that a target of the generation in place has if the site does not
// set them. It is false if that generation does not manage the target.
func (s *Store) DefaultAttributes(was Entry, now FileState) (left FileState, ok bool) {
	if was.CreateOnly || was.Dropped || now.Kind == Absent {
		return FileState{}, false
	}
	left, err := s.findDefaults(was, now)

	return left, err == nil
}

func defaultMode(k Kind) uint32 {
	if k == Dir {
		return 0o755
	}

	return 0o644
}

// resolveTarget returns the planned state of a target. Values that it leaves open come from defaults, or from the
// folder above.
func (s *Store) resolveTarget(t Target, now, defaults FileState) (FileState, error) {
	if t.Kind == Absent {
		return FileState{}, nil
	}

	n := FileState{
		Kind: t.Kind,
		Mode: uint32(t.Mode),
		UID:  t.UID,
		GID:  t.GID,
	}
	if t.Kind == File {
		n.SHA256 = Checksum(t.Content)
		n.Size = int64(len(t.Content))
		n.Xattrs = t.xattrs
		if n.Xattrs == nil {
			n.Xattrs = now.Xattrs
		}
		if t.Secret && n.Xattrs[accessACL] != nil { // the old file's readers must not read the secret
			n.Xattrs = maps.Clone(n.Xattrs)
			delete(n.Xattrs, accessACL)
		}
	}

	switch {
	case t.Mode != Keep:
	case t.Secret:
		n.Mode = 0o600
	case defaults.Kind != Absent:
		n.Mode = defaults.Mode
	default:
		n.Mode = defaultMode(t.Kind)
	}

	owner := defaults
	if owner.Kind == Absent && min(t.UID, t.GID) == Keep {
		var err error
		if owner, err = s.findFolderAbove(t.Path); err != nil {
			return FileState{}, err
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

// findFolderAbove returns the state of the nearest existing folder above p.
func (s *Store) findFolderAbove(p string) (FileState, error) {
	look, _, err := s.lookAbove(p)
	if err != nil {
		return FileState{}, err
	}
	defer look.Close()

	return look.State(), nil
}

func (s *Store) isEmpty(p string) bool {
	look, err := s.look(p)
	if err != nil {
		return false
	}
	defer look.Close()
	names, err := look.Names(1)

	return err == nil && len(names) == 0
}

// addDropped compares a target of the generation in place that the proposal does not declare. It is restored as before
// prelet, unless it was changed since. A file that only an interrupted commit has changed is restored in any case: the
// generation keeps its present content.
func (c *Comparison) addDropped(s *Store, was Entry, isRetired, isTouched bool) {
	e := Entry{
		Path:       was.Path,
		Action:     ActionKeep,
		Old:        was.New,
		New:        was.New,
		Original:   was.Original,
		CreateOnly: was.CreateOnly,
		Secret:     was.Secret,
		Dropped:    true,
	}
	o, err := s.observe(was.Path)
	if err != nil {
		e.Why = "it has been replaced by something else: " + err.Error()
		c.add(e, o)
		return
	}

	now := o.state
	original := was.Original
	e.Old = now
	e.New = now
	isKeptChange := isTouched && original.Kind == File && was.New.Kind == File &&
		(now.Kind == File || now.Kind == Absent)
	if o.damage != nil {
		e.Why = o.damage.Error()
	}
	switch {
	case was.CreateOnly:
		e.Why = "a file that is written only once stays"
	case now.Equal(original):
		e.Action = ActionNone
	case !now.Equal(was.New) && !isKeptChange && o.damage == nil:
		e.Drift = true
		e.Why = fmt.Sprintf("it was changed since generation %d", c.parent)
	case isRetired:
		e.Action = ActionNone
	case original.Kind == Absent:
		e.New = original
		e.Action = ActionDelete
	case now.Kind != Absent && now.Kind != original.Kind:
		e.Why = fmt.Sprintf("it was a %s before and is a %s now", original.Kind, now.Kind)
	default:
		e.New = original
		e.Action = ActionRestore
		c.dropSetID(&e, nodefile.Root(s.o.Root))
	}
	c.add(e, o)
}

func refuseChanged(p string) error {
	return refuse("compare", p, ErrChanged, "find out which program writes to it, and run again")
}

// checkProposal refuses an invalid proposal without looking at the disk.
func (s *Store) checkProposal(p Proposal) error {
	const next = "fix the site"
	own := s.findOwnPath()
	kinds := map[string]Kind{}
	for _, t := range p.Targets {
		err := t.check(own)
		if _, isDuplicate := kinds[t.Path]; isDuplicate && err == nil {
			err = errors.New("duplicate path")
		}
		if err != nil {
			return refuse("plan", t.Path, err, next)
		}
		kinds[t.Path] = t.Kind
	}

	for p := range kinds {
		for d := path.Dir(p); d != "/"; d = path.Dir(d) {
			if k, ok := kinds[d]; ok && k != Dir {
				cause := fmt.Errorf("%s above it is not planned as a folder", d)
				return refuse("plan", p, cause, next)
			}
		}
	}

	return checkBlobs(p.Blobs)
}

// check refuses an invalid target. own is the state folder as a target path, or "".
func (t Target) check(own string) error {
	if err := checkPath(t.Path); err != nil {
		return err
	}

	hasValidMode := t.Mode == Keep || t.Mode >= 0 && t.Mode <= maxMode
	switch {
	case own != "" && (t.Path == own || isAbove(own, t.Path)):
		return errors.New("it is in prelet's own folder")
	case strings.HasPrefix(path.Base(t.Path), ".prelet-"):
		return errors.New("names that begin with .prelet- are reserved for temporaries")
	case t.Kind != File && t.Kind != Dir && t.Kind != Absent:
		return fmt.Errorf("unknown kind %q", t.Kind)
	case t.Forget && t.Kind != Absent:
		return errors.New("only a removed file can be forgotten")
	case t.Kind != File && t.Content != nil, len(t.Content) > MaxContent:
		return fmt.Errorf("content of %d bytes for a %s (only a file may have content, up to %d)",
			len(t.Content), t.Kind, MaxContent)
	case !hasValidMode || min(t.UID, t.GID) < Keep:
		return fmt.Errorf("invalid mode %o or owner %d:%d", t.Mode, t.UID, t.GID)
	}

	return nil
}

func checkBlobs(blobs map[string][]byte) error {
	for name, b := range blobs {
		switch {
		case name == reportName || !isBlobName(name):
			return reportMisuse("plan", name, "invalid name of a blob")
		case len(b) > maxBlob:
			cause := fmt.Errorf("%d bytes with the contents of files are to be kept, the limit is %d", len(b), maxBlob)
			return refuse("plan", name, cause, "write fewer or smaller files")
		}
	}

	return nil
}

// findOwnPath returns the state folder as a target path, or "" if it is outside of the root.
func (s *Store) findOwnPath() string {
	root := filepath.Clean("/" + s.o.Root)
	switch {
	case root == "/":
		return s.o.Dir
	case !isAbove(root, s.o.Dir):
		return ""
	}

	return strings.TrimPrefix(s.o.Dir, root)
}
