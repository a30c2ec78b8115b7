package script

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a folder that scripts change as other programs do. Path returns the place of a name.
type Disk struct {
	T    testing.TB
	Path func(name string) string
}

func (d Disk) Commands() map[string]Command {
	return map[string]Command{
		"write":     d.write,
		"edit":      d.edit,
		"copy":      d.copy,
		"attribute": d.attribute,
		"move":      func(a []string) error { return os.Rename(d.Path(a[0]), d.Path(a[1])) },
		"remove":    d.remove,
		"folder":    d.folder,
		"link":      d.link,
		"mode":      d.mode,
		"owner":     d.owner,
		"mount":     d.mount,
		"fill":      d.fill,
		"spoil":     d.spoil,
	}
}

func (d Disk) Facts() map[string]Fact {
	return map[string]Fact{
		"file":      {1, d.file},
		"mode":      {1, d.modeOf},
		"owner":     {1, d.ownerOf},
		"exists":    {1, d.exists},
		"attribute": {2, d.attributeOf},
	}
}

// Unescape makes new lines of \n.
func Unescape(text string) string { return strings.ReplaceAll(text, `\n`, "\n") }

// Mode returns a mode of its octal number.
func Mode(text string) (fs.FileMode, error) {
	m, err := strconv.ParseUint(text, 8, 16)
	mode := fs.FileMode(m & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o1000: fs.ModeSticky, 0o2000: fs.ModeSetgid, 0o4000: fs.ModeSetuid} {
		if m&bit != 0 {
			mode |= flag
		}
	}

	return mode, err
}

func (d Disk) write(a []string) error {
	path, mode := d.Path(a[0]), fs.FileMode(0o644)
	if len(a) > 2 {
		m, err := Mode(a[2])
		if err != nil {
			return err
		}
		mode = m
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(Unescape(a[1])), mode); err != nil {
		return err
	}
	if len(a) < 3 { // an existing file keeps its mode
		return nil
	}

	return os.Chmod(path, mode)
}

func (d Disk) edit(a []string) error {
	text, err := os.ReadFile(d.Path(a[0]))
	if err != nil {
		return err
	}
	before, after := Unescape(a[1]), string(text)+Unescape(a[2])
	if !strings.Contains(string(text), before) {
		return fmt.Errorf("%s: got no %q in it, want one:\n%s", a[0], before, text)
	}
	if before != "" {
		after = strings.ReplaceAll(string(text), before, Unescape(a[2]))
	}

	return os.WriteFile(d.Path(a[0]), []byte(after), 0o644)
}

func (d Disk) copy(a []string) error {
	to := d.Path(a[1])
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := exec.Command("cp", "-a", "--no-target-directory", d.Path(a[0]), to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}

	return nil
}

func (d Disk) remove(a []string) error {
	for _, name := range a {
		if err := os.RemoveAll(d.Path(name)); err != nil {
			return err
		}
	}

	return nil
}

func (d Disk) folder(a []string) error {
	mode := fs.FileMode(0o755)
	if len(a) > 1 {
		m, err := Mode(a[1])
		if err != nil {
			return err
		}
		mode = m
	}
	if err := os.MkdirAll(d.Path(a[0]), 0o755); err != nil {
		return err
	}

	return os.Chmod(d.Path(a[0]), mode)
}

func (d Disk) link(a []string) error {
	path := d.Path(a[1])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	return os.Symlink(a[0], path)
}

func (d Disk) mode(a []string) error {
	mode, err := Mode(a[1])
	if err != nil {
		return err
	}

	return os.Chmod(d.Path(a[0]), mode)
}

func (d Disk) owner(a []string) error {
	ids := [2]int{-1, -1}
	for i, text := range strings.SplitN(a[1], ":", 2) {
		if text == "" {
			continue
		}
		id, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		ids[i] = id
	}

	return os.Lchown(d.Path(a[0]), ids[0], ids[1])
}

// attribute PATH NAME VALUE: acl and default-acl have the value user:ID:PERMISSIONS or group:ID:PERMISSIONS, immutable
// and append-only any one.
func (d Disk) attribute(a []string) error {
	if flag := map[string]string{"immutable": "i", "append-only": "a"}[a[1]]; flag != "" {
		return d.flag(flag, d.Path(a[0]), a[2] != "none")
	}
	path, name, value := d.Path(a[0]), attributeName(a[1]), []byte(a[2])
	if a[2] == "none" {
		return unix.Removexattr(path, name)
	}
	if name == a[1] {
		return unix.Setxattr(path, name, value, 0)
	}
	value, err := encodeACL(strings.Split(a[2], ":"))
	if err != nil {
		return err
	}
	err = unix.Setxattr(path, name, value, 0)
	if errors.Is(err, unix.ENOTSUP) {
		d.T.Skip("needs a TMPDIR whose file system has ACLs")
	}

	return err
}

// flag sets or clears a flag of a file, until the end of the test.
func (d Disk) flag(flag, path string, isSet bool) error {
	sign := map[bool]string{true: "+", false: "-"}[isSet]
	out, err := exec.Command("chattr", sign+flag, path).CombinedOutput()
	if os.Geteuid() != 0 || bytes.Contains(out, []byte("not supported")) {
		d.T.Skip("needs root, and a TMPDIR whose file system has flags of files")
	}
	if err != nil {
		return fmt.Errorf("chattr: %w: %s", err, out)
	}
	if isSet {
		d.T.Cleanup(func() { _ = exec.Command("chattr", "-"+flag, path).Run() })
	}

	return nil
}

// attributeName returns the name of an attribute, which an ACL is too.
func attributeName(name string) string {
	switch name {
	case "acl":
		return "system.posix_acl_access"
	case "default-acl":
		return "system.posix_acl_default"
	}

	return name
}

// encodeACL returns the ACL of mode 0755 that gives one more user or group its permissions.
func encodeACL(who []string) ([]byte, error) {
	if len(who) != 3 {
		return nil, fmt.Errorf("got the ACL %q, want user:ID:PERMISSIONS or group:ID:PERMISSIONS", who)
	}
	id, err := strconv.ParseUint(who[1], 10, 32)
	permissions, err2 := strconv.ParseUint(who[2], 8, 16)
	const noID = ^uint32(0)
	more := aclEntry{map[string]uint16{"user": 0x02, "group": 0x08}[who[0]], uint16(permissions), uint32(id)}
	all := []aclEntry{{0x01, 7, noID}, {0x04, 5, noID}, more, {0x10, 7, noID}, {0x20, 5, noID}}
	slices.SortFunc(all, func(a, b aclEntry) int { return int(a.Tag) - int(b.Tag) })
	value, err3 := binary.Append(binary.LittleEndian.AppendUint32(nil, 2), binary.LittleEndian, all)

	return value, errors.Join(err, err2, err3)
}

// aclEntry is an entry of struct posix_acl_xattr_header, of version 2.
type aclEntry struct {
	Tag, Permissions uint16
	ID               uint32
}

func (d Disk) mount(a []string) error {
	path, options := d.Path(a[0]), strings.Join(a[2:], " ")
	switch a[1] {
	case "none":
		return unix.Unmount(path, unix.MNT_DETACH)
	case "remount":
		flags := uintptr(unix.MS_REMOUNT)
		if options == "ro" {
			flags, options = flags|unix.MS_RDONLY, ""
		}

		return unix.Mount("", path, "", flags, options)
	}
	if _, err := os.Lstat(path); err != nil {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	var err error
	switch a[1] {
	case "tmpfs":
		err = unix.Mount("tmpfs", path, "tmpfs", 0, options)
	case "bind":
		err = unix.Mount(d.Path(options), path, "", unix.MS_BIND, "")
	case "read-only":
		if err = unix.Mount(path, path, "", unix.MS_BIND, ""); err == nil {
			err = unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
	default:
		return fmt.Errorf("got a mount of kind %q, want tmpfs, bind, read-only, remount or none", a[1])
	}
	if err == nil {
		d.T.Cleanup(func() { _ = unix.Unmount(path, unix.MNT_DETACH) })
	}

	return err
}

// fill writes one file until the file system is full, or files until it has no inode.
func (d Disk) fill(a []string) error {
	path := d.Path(a[0])
	if err := mustBeSmall(filepath.Dir(path)); err != nil {
		return err
	}
	if len(a) > 1 {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		for i := 0; ; i++ {
			if err := os.WriteFile(filepath.Join(path, strconv.Itoa(i)), nil, 0o600); err != nil {
				return ignore(err, unix.ENOSPC)
			}
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			if !errors.Is(err, unix.ENOSPC) {
				return err
			}
			block = block[:len(block)/2]
		}
	}

	return nil
}

// mustBeSmall refuses to fill the disk of the machine that runs the test.
func mustBeSmall(folder string) error {
	const most = 1 << 30
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return err
	}
	if size := st.Blocks * uint64(st.Bsize); size > most {
		return fmt.Errorf("got a file system of %d bytes at %s, want one that the script has mounted, of %d at most",
			size, folder, most)
	}

	return nil
}

// ignore returns an error, or nil if it is the wanted error.
func ignore(err, wanted error) error {
	if errors.Is(err, wanted) {
		return nil
	}

	return err
}

func (d Disk) spoil(a []string) error {
	path := d.Path(a[0])
	switch a[1] {
	case "flip":
		return flip(path)
	case "folder":
		return errors.Join(os.RemoveAll(path), os.MkdirAll(path, 0o755))
	case "fifo":
		return errors.Join(os.RemoveAll(path), unix.Mkfifo(path, 0o600))
	case "socket":
		return errors.Join(os.RemoveAll(path), unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
	}

	return fmt.Errorf("got %q, want a way that this node can spoil a file in", a[1])
}

// flip changes a bit of the last byte.
func flip(path string) error {
	text, err := os.ReadFile(path)
	if err == nil && len(text) == 0 {
		err = fmt.Errorf("%s is empty, and has no bit to flip", path)
	}
	if err != nil {
		return err
	}
	text[len(text)-1] ^= 1

	return os.WriteFile(path, text, 0o600)
}

// isMissing reports whether an error is that there is no such file, also because a folder above it is a file.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

func (d Disk) file(a []string) (string, error) {
	text, err := os.ReadFile(d.Path(a[0]))
	if isMissing(err) {
		return "absent", nil
	}

	return string(text), err
}

func (d Disk) modeOf(a []string) (string, error) {
	i, err := os.Lstat(d.Path(a[0]))
	if isMissing(err) {
		return "absent", nil
	}
	if err != nil {
		return "", err
	}

	return i.Mode().String(), nil
}

func (d Disk) ownerOf(a []string) (string, error) {
	i, err := os.Lstat(d.Path(a[0]))
	if isMissing(err) {
		return "absent", nil
	}
	if err != nil {
		return "", err
	}
	st := i.Sys().(*syscall.Stat_t)

	return fmt.Sprintf("%d:%d", st.Uid, st.Gid), nil
}

func (d Disk) attributeOf(a []string) (string, error) {
	value := make([]byte, 1<<16)
	n, err := unix.Getxattr(d.Path(a[0]), attributeName(a[1]), value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return "none", nil
	}

	return string(value[:max(n, 0)]), err
}

func (d Disk) exists(a []string) (string, error) {
	_, err := os.Lstat(d.Path(a[0]))
	if isMissing(err) {
		return "no", nil
	}

	return "yes", err
}
