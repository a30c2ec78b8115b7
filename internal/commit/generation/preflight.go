package generation

import (
	"errors"
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// room is what a commit needs on one file system.
type room struct {
	fd           *folder // some folder on it
	bytes, files uint64
}

// preflight finds out, writing nothing, whether the commit can succeed: every folder is there or will be made, belongs to
// us, can be written; no target is immutable or a mount point; there is space. It returns the folders that are to be made,
// the highest first, with the mode of each.
//
// Where back is not nil, contents that were in place before come back: a folder that others may write is no reason against
// that then, and back is called with each.
func (s *Store) preflight(c *Comparison, blobs map[string][]byte, back func(*nodefile.Loose)) ([]newFolder, error) {
	plan := folderPlan{s: s, c: c, rooms: map[uint64]*room{}, done: map[string]bool{}, back: back}
	defer plan.close()
	if err := plan.judgePlanned(); err != nil {
		return nil, err
	}
	stored := uint64(1 << 16)
	for _, b := range blobs {
		stored += blocks(len(b))
	}
	for i, e := range c.Entries {
		for _, st := range []State{e.New, e.Original} {
			if st.Kind == File {
				stored += blocks(int(st.Size))
			}
		}
		if !e.changes() {
			continue
		}
		stored += blocks(len(c.seen[i].content))
		if err := plan.target(e, c.parents[i]); err != nil {
			return nil, err
		}
	}
	own := &folder{fd: s.dir.fd, path: s.dir.path}
	if err := writable(own); err != nil {
		return nil, err
	}
	if err := plan.need(own, stored, 8); err != nil {
		return nil, err
	}
	return plan.make, plan.enough()
}

func blocks(n int) uint64 { return uint64(n+4095) / 4096 * 4096 }

// newFolder is a folder that staging makes.
type newFolder struct {
	path     string
	mode     uint32
	uid, gid int // or Keep
}

type folderPlan struct {
	s     *Store
	c     *Comparison
	make  []newFolder
	done  map[string]bool // folders that were checked, or are in make
	rooms map[uint64]*room
	back  func(*nodefile.Loose) // nil: what is written was not in place before
}

func (p *folderPlan) close() {
	for _, r := range p.rooms {
		r.fd.close()
	}
}

func (p *folderPlan) target(e Entry, parents bool) error {
	lack, err := p.s.tree.missing(e.Path)
	if err != nil {
		return err
	}
	base := path.Dir(e.Path)
	if len(lack) > 0 {
		base = path.Dir(lack[0])
	}
	for _, d := range lack {
		if e.New.Kind == Absent || p.done[d] {
			continue // made already, by a folder that is declared before it
		}
		f := newFolder{path: d, mode: 0o755, uid: Keep, gid: Keep}
		decl := p.declared(d)
		if decl != nil {
			f.mode, f.uid, f.gid = decl.New.Mode, decl.New.UID, decl.New.GID
		} else if !parents {
			return wrap(fault.CannotWrite, "check", d, unix.ENOENT)
		}
		p.make = append(p.make, f)
		p.done[d] = true
	}
	if e.Action == ActionCreate && e.New.Kind == Dir && !p.done[e.Path] {
		p.make = append(p.make, newFolder{path: e.Path, mode: e.New.Mode, uid: e.New.UID, gid: e.New.GID})
		p.done[e.Path] = true
	}
	if err := p.folder(base, e); err != nil {
		return err
	}
	if e.Old.Kind == Absent {
		return nil
	}
	dir, name, err := p.s.tree.parent(e.Path)
	if err != nil {
		return err
	}
	defer dir.close()
	return replaceable(dir, name, e.Old.Kind)
}

func (p *folderPlan) declared(d string) *Entry {
	for i := range p.c.Entries {
		if e := &p.c.Entries[i]; e.Path == d && e.New.Kind == Dir {
			return e
		}
	}
	return nil
}

// judgePlanned refuses to give a folder an owner or a mode with which others could replace a target below it: no run after
// that would write there.
func (p *folderPlan) judgePlanned() error {
	for _, f := range p.c.Entries {
		if p.back != nil || f.New.Kind != Dir || !f.changes() {
			continue
		}
		for _, e := range p.c.Entries {
			if e.New.Kind == Absent || e.Dropped || !above(f.Path, e.Path) {
				continue
			}
			loose := nodefile.JudgeState(f.Path, f.New.UID, f.New.GID, f.New.Mode, path.Dir(e.Path) != f.Path)
			if loose != nil {
				why := fmt.Errorf("it would hold %s, and %s, who could replace that", e.Path, loose.Why)
				return NewFault(fault.CannotWrite, "change", f.Path, why, "give it root as owner and a mode such as 0755, or choose another folder")
			}
		}
	}
	return nil
}

// judge refuses a folder in which others could replace what is written. It is judged as this commit makes it: a folder that
// is declared is set before what lies below it, and a temporary that was staged before that is looked at again then.
func (p *folderPlan) judge(at string, fd int, st *unix.Stat_t, last bool) error {
	now := *st
	if e := p.declared(at); e != nil && e.changes() {
		now.Mode = now.Mode&unix.S_IFMT | e.New.Mode
		now.Uid, now.Gid = uint32(e.New.UID), uint32(e.New.GID)
	}
	loose := nodefile.Judge(fd, at, &now, !last)
	if loose != nil && p.back != nil {
		// The way back goes through folders by their descriptors, follows no link, and gives owner and mode to what it holds
		// open. So who may write the folder can replace what comes back, as what is there now, and reach nothing else.
		p.back(loose)
		return nil
	}
	return refuseLoose(loose)
}

// folder checks the folder that a target, or the first missing folder above it, will be written in. What goes, or is put back
// as it was before prelet, is not ours any more: who may write the folder could do that as well.
func (p *folderPlan) folder(d string, e Entry) error {
	judged := p.done[d]
	goes := e.New.Kind == Absent || e.Dropped
	var f *folder
	var err error
	if judged || goes {
		f, err = p.s.tree.open(d)
	} else {
		f, err = p.s.tree.walk(d, openFolder, p.judge)
	}
	if err != nil {
		return err
	}
	defer f.close()
	if !judged {
		if err := writable(f); err != nil {
			return err
		}
		p.done[d] = !goes
	}
	return p.need(f, blocks(int(e.New.Size)), 2)
}

// need adds to what one file system must hold.
func (p *folderPlan) need(f *folder, bytes, files uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return wrap(fault.CannotWrite, "stat", f.path, err)
	}
	r := p.rooms[uint64(st.Dev)]
	if r == nil {
		fd, err := unix.Openat(f.fd, ".", openFolder, 0)
		if err != nil {
			return wrap(fault.CannotWrite, "open", f.path, err)
		}
		r = &room{fd: &folder{fd: fd, path: f.path}}
		p.rooms[uint64(st.Dev)] = r
	}
	r.bytes += bytes
	r.files += files
	return nil
}

// enough compares what is needed with what is free. Root may use what is set aside for it.
func (p *folderPlan) enough() error {
	for _, r := range p.rooms {
		var fs unix.Statfs_t
		if err := unix.Fstatfs(r.fd.fd, &fs); err != nil {
			return wrap(fault.CannotWrite, "statfs", r.fd.path, err)
		}
		free := fs.Bavail
		if unix.Geteuid() == 0 {
			free = fs.Bfree
		}
		if fs.Blocks > 0 && free*uint64(fs.Bsize) < r.bytes || fs.Files > 0 && fs.Ffree < r.files {
			return wrap(fault.CannotWrite, "check space in", r.fd.path, unix.ENOSPC)
		}
	}
	return nil
}

// writable says why nothing can be made in a folder.
func writable(f *folder) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(f.fd, &fs); err != nil {
		return wrap(fault.CannotWrite, "statfs", f.path, err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return wrap(fault.CannotWrite, "check", f.path, unix.EROFS)
	}
	if err := unix.Faccessat(f.fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return wrap(fault.CannotWrite, "check", f.path, err)
	}
	return frozen(f, ".", f.path)
}

// replaceable says why a target cannot be renamed over.
func replaceable(dir *folder, base string, kind Kind) error {
	p := dir.name(base)
	var sx unix.Statx_t
	err := unix.Statx(dir.fd, base, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &sx)
	if err == nil && kind == File && sx.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return wrap(fault.CannotWrite, "check", p, unix.EBUSY)
	}
	return frozen(dir, base, p)
}

// frozen refuses what carries an immutable or append-only flag. File systems without such flags do not tell, and are fine.
func frozen(dir *folder, base, p string) error {
	var sx unix.Statx_t
	if err := unix.Statx(dir.fd, base, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &sx); err != nil {
		return ignoreUnknown("check", p, err)
	}
	switch {
	case sx.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
		return NewFault(fault.CannotWrite, "check", p, errors.New("it carries the immutable flag"), "take it off with chattr -i")
	case sx.Attributes&unix.STATX_ATTR_APPEND != 0:
		return NewFault(fault.CannotWrite, "check", p, errors.New("it carries the append-only flag"), "take it off with chattr -a")
	}
	return nil
}

// ignoreUnknown passes over a system call that the kernel or a filter does not have: the rename itself will say what is wrong.
func ignoreUnknown(op, p string, err error) error {
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return wrap(fault.CannotWrite, op, p, err)
}
