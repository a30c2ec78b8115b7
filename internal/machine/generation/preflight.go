package generation

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// preflight checks without writing whether the commit can succeed: every folder exists or will be created, belongs to
// us and can be written; no target is immutable or a mount point; there is space. It returns the folders to create, the
// highest first.
//
// On a rollback, where loose is not nil, a folder that other users may write does not refuse it: loose gets the
// folder.
func (s *Store) preflight(
	c *Comparison, blobs map[string][]byte, loose func(*nodefile.Loose),
) ([]string, error) {
	plan := newFolderPlan(s, c)
	plan.loose = loose
	err := plan.listChecks(generationSize(c.Entries, blobs)).First()

	return plan.missing, err
}

// Checks returns the checks of a commit that makes some changes. The content of the new files need not be known: each
// takes the space of a small file, and the generation as much as a generation takes at most.
func (s *Store) Checks(changes []Entry) check.List {
	const small, maxSize = 64 << 10, 32 << 20

	for i := range changes {
		changes[i].New.Size = small
	}

	return newFolderPlan(s, &Comparison{Entries: changes}).listChecks(maxSize)
}

// generationSize returns the most bytes that the files of a generation take: its content and blobs in one file, and
// small documents around it.
func generationSize(entries []Entry, blobs map[string][]byte) uint64 {
	const documents, document = 64 << 10, 1 << 10

	size := uint64(documents + len(entries)*document)
	for _, b := range blobs {
		size += uint64(len(b))
	}
	for _, e := range entries {
		size += uint64(e.New.Size + e.Original.Size)
		if e.HasChange() {
			size += uint64(e.Old.Size)
		}
	}

	return roundToBlocks(int64(size))
}

func roundToBlocks(size int64) uint64 { return uint64(size+4095) / 4096 * 4096 }

// planFolder returns a folder as the entries declare it, or with mode 0755 and the owner of the folder above.
func planFolder(entries []Entry, p string) FileState {
	if e := findFolder(entries, p); e != nil {
		return e.New
	}

	return FileState{Kind: Dir, Mode: 0o755, UID: Keep, GID: Keep}
}

// findFolder returns the entry that declares a folder, or nil.
func findFolder(entries []Entry, p string) *Entry {
	for i := range entries {
		if e := &entries[i]; e.Path == p && e.New.Kind == Dir {
			return e
		}
	}

	return nil
}

// folderPlan checks the folders of a commit and collects the missing ones.
type folderPlan struct {
	s       *Store
	c       *Comparison
	missing []string
	checked map[string]bool   // folders that were checked or are in missing
	space   map[uint64]*space // by device
	loose   func(*nodefile.Loose)
}

func newFolderPlan(s *Store, c *Comparison) *folderPlan {
	return &folderPlan{
		s:       s,
		c:       c,
		checked: map[string]bool{},
		space:   map[uint64]*space{},
	}
}

// space is the amount that a commit writes on one file system.
type space struct{ bytes, files uint64 }

// listChecks returns the checks of the targets and of the state folder, to which a commit writes size bytes.
func (p *folderPlan) listChecks(size uint64) (l check.List) {
	add := func(run func() error) {
		l.Add("disk", check.Root|check.Commit, func(r *check.Recorder) { r.Fail(run()) })
	}

	if p.loose == nil {
		add(func() error { return checkPlannedFolders(p.c.Entries) })
	}
	for i, e := range p.c.Entries {
		if e.HasChange() {
			add(func() error { return p.addOrKeep(i) })
		}
	}
	add(func() error { return p.checkStateFolder(size) })

	return l
}

// checkStateFolder checks the state folder or, while there is none, the folder in which it will be created.
func (p *folderPlan) checkStateFolder(size uint64) (err error) {
	f := p.s.dir
	for at := p.s.o.Dir; f == nil; at = path.Dir(at) {
		f, err = openReal(at)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if f != p.s.dir {
		defer f.close()
	}

	if err := checkWritable(f); err != nil {
		return err
	}

	return p.reserve(f, size, 8)
}

// addOrKeep is addTarget on an entry that may be one of a target that stays as it is where it cannot be changed.
func (p *folderPlan) addOrKeep(i int) error {
	e := p.c.Entries[i]
	err := p.addTarget(e)
	if was, isManaged := p.c.ours[e.Path]; err != nil && isManaged && p.c.mayStay[e.Path] {
		p.c.Entries[i] = keepEntry(was, err.Error())
		return nil
	}

	return err
}

// addTarget checks one target and the folders above it.
func (p *folderPlan) addTarget(e Entry) error {
	above, missing, err := p.s.lookAbove(e.Path)
	if err != nil {
		return err
	}
	defer above.Close()
	if e.Action == ActionCreate && e.New.Kind == Dir {
		missing = append(missing, e.Path)
	}

	for _, d := range missing {
		if e.New.Kind == Absent || p.checked[d] {
			continue // not needed, or created for an earlier target
		}
		p.missing = append(p.missing, d)
		p.checked[d] = true
	}
	if err := checkAttributes(e, nodefile.Root(p.s.o.Root)); err != nil {
		return err
	}
	if err := checkSetID(e); err != nil {
		return err
	}
	err = p.checkFolder(above, e)
	if err != nil || e.Old.Kind == Absent {
		return err
	}

	dir, name, err := p.s.openParent(e.Path)
	if err != nil {
		return err
	}
	defer dir.close()

	return checkFlags(dir, name, e.Old.Kind == File)
}

// setID are the bits of a mode that prelet's units may not set: they have RestrictSUIDSGID=.
const setID = unix.S_ISUID | unix.S_ISGID

// checkSetID refuses a file or a folder that keeps setuid or setgid, where this process may not set them: a change that
// a site asks for must not take them away.
func checkSetID(e Entry) error {
	if e.New.Mode&setID == 0 || maySetID() {
		return nil
	}
	cause := errors.New("it has setuid or setgid, which this process may not set")

	return refuse("check", e.Path, cause, fmt.Sprintf(
		"write mode = \"%04o\" into its block of the site, or run prelet run by hand, as root", e.New.Mode&^setID))
}

// dropSetID removes setuid and setgid from a restored target where this process may not set them: nothing blocks a
// rollback.
func (c *Comparison) dropSetID(e *Entry, root nodefile.Root) {
	mode := e.New.Mode
	if mode&setID == 0 || e.Old.Equal(e.New) || maySetID() {
		return
	}

	e.New.Mode &^= setID
	next := fmt.Sprintf("prelet rollback %d", c.restores)
	if e.Dropped {
		next = fmt.Sprintf("chmod %04o %s", mode, root.Word(e.Path))
	}
	c.WithoutSetID = append(c.WithoutSetID, fmt.Sprintf(
		"%s is restored with mode %04o instead of %04o, because prelet's units may not set setuid and setgid; "+
			"by hand, as root: %s", e.Path, e.New.Mode, mode, next))
}

// maySetID reports whether this process may set setuid on a file. It is true where that cannot be tried.
func maySetID() bool {
	fd, err := unix.MemfdCreate("prelet", unix.MFD_CLOEXEC)
	if err != nil {
		return true
	}
	defer unix.Close(fd)

	return !errors.Is(unix.Fchmod(fd, unix.S_ISUID|0o600), unix.EPERM)
}

// checkAttributes refuses a file with an extended attribute that this process may not set.
func checkAttributes(e Entry, root nodefile.Root) error {
	for _, name := range sortedKeys(e.New.Xattrs) {
		capability := nodefile.MissingCapability(name)
		if capability == "" || name == smackLabel && string(e.New.Xattrs[name]) == readOwnLabel() {
			continue
		}
		cause := fmt.Errorf("only a process with %s may give the new file its extended attribute %s", capability, name)

		return refuse("check", e.Path, cause, fmt.Sprintf("remove it with setfattr -x %s %s, or write "+
			"CapabilityBoundingSet=%s into drop-ins of prelet.service, prelet-apply.service and prelet-verify.service",
			name, root.Word(e.Path), capability))
	}

	return nil
}

// smackLabel is the attribute with the label of Smack. A new file has that of the process.
const smackLabel = "security.SMACK64"

// readOwnLabel returns the label of this process; "" without an LSM that has labels.
func readOwnLabel() string {
	b, err := nodefile.ReadFile("/proc/self/attr/current", 4096)
	if err != nil {
		return ""
	}

	return strings.TrimRight(string(b), "\x00\n")
}

// checkPlannedFolders refuses to give a folder an owner or a mode that allows other users to replace a target below it.
// No later run would write there.
func checkPlannedFolders(entries []Entry) error {
	for _, f := range entries {
		if f.New.Kind != Dir || !f.HasChange() {
			continue
		}
		for _, e := range entries {
			if e.New.Kind == Absent || e.Dropped || !isAbove(f.Path, e.Path) {
				continue
			}
			isPassed := path.Dir(e.Path) != f.Path
			loose := nodefile.FindLooseState(
				f.Path,
				f.New.UID,
				f.New.GID,
				f.New.Mode,
				isPassed,
			)
			if loose != nil {
				cause := fmt.Errorf("it would hold %s, and %s, who could replace that file", e.Path, loose.Why)
				return refuse("change", f.Path, cause,
					"give it root as owner and a mode such as 0755, or choose another folder")
			}
		}
	}

	return nil
}

// checkTrust refuses a path through a folder in which other users could replace the written files. A declared folder is
// checked with the owner and mode that this commit gives it, because it is changed before the targets below it are
// written.
func (p *folderPlan) checkTrust(look *nodefile.Look) error {
	all := look.FindLooseFolders(func(at string, st *unix.Stat_t) {
		if e := findFolder(p.c.Entries, at); e != nil && e.HasChange() {
			st.Mode = st.Mode&unix.S_IFMT | e.New.Mode
			st.Uid = uint32(e.New.UID)
			st.Gid = uint32(e.New.GID)
		}
	})
	for _, loose := range all {
		if p.loose != nil {
			// A rollback opens folders by their descriptors, follows no link, and changes owner and mode of files that
			// it has open. A user who may write the folder can only replace the restored files, as already now.
			p.loose(loose)
			continue
		}
		cause := fmt.Errorf("the folder %s, who could replace files in it", loose.Why)

		return refuse("check", loose.Path, cause, loose.Fix+", or choose another folder")
	}

	return nil
}

// checkFolder checks the existing folder that a target, or the first missing folder above it, will be written in. The
// owner of the folder does not matter for a target that is removed or restored as before prelet: a user who may write
// the folder could do the same.
func (p *folderPlan) checkFolder(look *nodefile.Look, e Entry) error {
	f, err := newFolderOf(look)
	if err != nil {
		return err
	}
	defer f.close()

	isReleased := e.New.Kind == Absent || e.Dropped
	if isChecked := p.checked[f.path]; !isChecked {
		if !isReleased {
			err = p.checkTrust(look)
		}
		if err == nil {
			err = checkWritable(f)
		}
		if err != nil {
			return err
		}
		p.checked[f.path] = !isReleased
	}
	if e.New.Kind == Absent {
		return nil // a removal needs no space
	}

	return p.reserve(f, roundToBlocks(e.New.Size), 2)
}

// reserve adds to the space needed on the file system of a folder, and returns an error if that exceeds the free space.
// Root may use the blocks that a file system keeps for it.
func (p *folderPlan) reserve(f *folder, bytes, files uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return wrapIO("stat", f.path, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &fs); err != nil {
		return wrapIO("statfs", f.path, err)
	}

	need := p.space[st.Dev]
	if need == nil {
		need = &space{}
		p.space[st.Dev] = need
	}
	need.bytes += bytes
	need.files += files

	lacksBytes := fs.Blocks > 0 && fs.Bfree*uint64(fs.Bsize) < need.bytes
	lacksFiles := fs.Files > 0 && fs.Ffree < need.files
	if lacksBytes || lacksFiles {
		return wrapIO("check space in", f.path, unix.ENOSPC)
	}

	return nil
}

// checkWritable returns why nothing can be created in a folder.
func checkWritable(f *folder) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &fs); err != nil {
		return wrapIO("statfs", f.path, err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return wrapIO("check", f.path, unix.EROFS)
	}

	err := unix.Faccessat(f.fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err != nil {
		return wrapIO("check", f.path, err)
	}

	return checkFlags(f, ".", false)
}

// checkFlags refuses a file or folder that cannot be changed: a mount point that is a file, and every immutable or
// append-only flag. If a file system or a filter cannot report them, the rename returns the error.
func checkFlags(dir *folder, base string, isFile bool) error {
	p := dir.name(base)
	var sx unix.Statx_t
	if unix.Statx(dir.fd, base, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &sx) != nil {
		return nil
	}

	if isFile && sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return wrapIO("check", p, unix.EBUSY)
	}
	if sx.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0 {
		cause := fmt.Errorf("it has the immutable or append-only flag (%w)", unix.EPERM)
		return refuse("check", p, cause, "remove the flag with chattr -i or chattr -a")
	}

	return nil
}
