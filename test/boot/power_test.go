package boot

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/test/nspawn"
)

// newPowered is a machine whose disk can lose its power: ext4 on a loop device, with all that the others have as
// layers.
func newPowered(t *testing.T) *machine {
	t.Helper()
	return machineOn(t, (*machine).format)
}

const diskSize = 2 << 30 // most of it a hole

// format makes the disk and mounts it. ext4 writes data without fsync only when requested, not after 5 s.
func (m *machine) format(cache string) error {
	m.image = m.Dir + "/disk.img"
	whole := m.Dir + "/whole"
	err := errors.Join(
		os.MkdirAll(whole, 0o755),
		syscall.Mount(
			"overlay",
			whole,
			"overlay",
			syscall.MS_RDONLY,
			fmt.Sprintf("lowerdir=%s/layer:%s/debian", cache, cache),
		),
	)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Unmount(whole, syscall.MNT_DETACH) }()
	if err := errors.Join(os.WriteFile(m.image, nil, 0o600), os.Truncate(m.image, diskSize)); err != nil {
		return err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", "-d", whole, m.image).
		CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	return m.mount()
}

// mount attaches the image to a free loop device, which goes with the mount. Its node is made here, because not every
// machine makes one for each device.
func (m *machine) mount() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()
	backing, err := os.OpenFile(m.image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer backing.Close()
	for try := 0; ; try++ {
		if m.loop, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return err
		}
		node := fmt.Sprintf("%s/loop%d", m.Dir, m.loop)
		if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(m.loop)))); err != nil &&
			!errors.Is(err, unix.EEXIST) {
			return err
		}
		device, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			err = unix.Mount(node, m.Root, "ext4", 0, "commit=1000")
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) || try == 6000 { // a minute
			return err
		}
		time.Sleep(10 * time.Millisecond) // somebody else took it
	}
}

// flush writes what we put on the disk ourselves: else a cut would take that.
func (m *machine) flush() {
	m.T.Helper()
	f, err := os.Open(m.Root)
	if err == nil {
		err = errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
	}
	must(m.T, err)
}

// cut takes the power: from one moment to the next nothing more reaches the disk, what was not fsynced by then is
// lost (the shutdown of ext4 that flushes no log), and every process and all that lay in memory is gone. The disk is
// mounted again then, and nothing has booted.
func (m *machine) cut(h *hold) {
	m.T.Helper()
	f, err := os.Open(m.Root)
	if err == nil {
		const goingDown, noLogFlush = 0x8004587d, 2
		err = errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), goingDown, noLogFlush), f.Close())
	}
	must(m.T, err)
	if m.Leader != 0 {
		_ = syscall.Kill(m.Leader, syscall.SIGKILL)
	}
	if h != nil {
		h.release() // it dies on its way out
	}
	m.Kill()
	m.Within(time.Minute, "no process is left", func() string {
		if left := nspawn.Processes(m.Name); len(left) > 0 {
			return fmt.Sprint(left)
		}
		return ""
	})
	m.Within(time.Minute, "the disk is let go of", func() string {
		if err := unix.Unmount(m.Root, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return err.Error()
		}
		if image, err := os.ReadFile(fmt.Sprintf("/sys/block/loop%d/loop/backing_file", m.loop)); err == nil &&
			strings.TrimSpace(string(image)) == m.image {
			return "its loop device is still there"
		}
		return ""
	})
	must(m.T, m.mount())
}

// stamp is all that a file is: a cut before COMMIT leaves it, and one of somebody else's keeps it for ever.
func (m *machine) stamp(path string) string {
	m.T.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(m.Root+path, &st); err != nil {
		return err.Error()
	}
	note := make([]byte, 64)
	n, err := unix.Lgetxattr(m.Root+path, "user.note", note)
	return fmt.Sprintf(
		"inode %d, mode %o, owner %d:%d, modified %d.%09d, note %q %v: %s",
		st.Ino,
		st.Mode,
		st.Uid,
		st.Gid,
		st.Mtim.Sec,
		st.Mtim.Nsec,
		note[:max(0, n)],
		err,
		m.read(path),
	)
}

// foreign files are next to the targets, and are not ours.
var foreign = []string{"/etc/default/foreign", "/etc/kubernetes/foreign.conf", "/var/lib/kubelet/foreign"}

func (m *machine) plantForeign() {
	m.T.Helper()
	for _, path := range foreign {
		m.put(path, "none of ours\n")
		must(m.T, errors.Join(
			os.Chmod(m.Root+path, 0o640),
			os.Chown(m.Root+path, 7, 8),
			unix.Lsetxattr(m.Root+path, "user.note", []byte("keep"), 0),
		))
	}
}

// kept are generations, which hold what was in place, for who goes back: root's alone.
var kept = regexp.MustCompile(`/var/lib/prelet/generations/[0-9]+$`)

// litter are files that prelet or its secret left: temporaries, generations that were never committed, the token.
func (m *machine) litter() (out []string) {
	m.T.Helper()
	for _, top := range []string{"/etc/default", "/etc/kubernetes", "/etc/prelet", "/var/lib/kubelet", "/var/lib/prelet"} {
		err := filepath.WalkDir(m.Root+top, func(p string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name := d.Name()
			if strings.HasPrefix(name, ".prelet-") || strings.HasSuffix(name, ".tmp") ||
				strings.HasSuffix(name, ".staged") ||
				strings.HasPrefix(name, ".") && strings.Contains(name, ".json.") {
				out = append(out, p)
			}
			if !d.Type().IsRegular() { // Debian 13 has a link to nothing
				return nil
			}
			text, err := os.ReadFile(p)
			if strings.Contains(string(text), demo.TokenSecret) && !kept.MatchString(p) {
				out = append(out, p+" (the token)")
			}
			return err
		})
		must(m.T, err)
	}
	return out
}
