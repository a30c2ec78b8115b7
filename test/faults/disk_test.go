package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// filesystem is one kind of disk that the sweep runs on.
type filesystem struct {
	name    string
	size    int64 // of the image, bytes; sparse
	mkfs    []string
	options string
	// shutdown says whether the file system has the ioctl that throws away all that is not on disk. Where it has not,
	// the image is copied while it is mounted, which is what a disk holds when the power goes.
	shutdown bool
}

var filesystems = []filesystem{
	{
		"ext4",
		32 << 20,
		[]string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"},
		"commit=1000",
		true,
	},
	{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-f"}, "", true},
	{"btrfs", 128 << 20, []string{"mkfs.btrfs", "-q", "-f"}, "commit=1000", false},
}

// format makes an empty image.
func (f filesystem) format(t *testing.T, image string) {
	t.Helper()
	file, err := os.Create(image)
	if err == nil {
		err = errors.Join(file.Truncate(f.size), file.Close())
	}
	must(t, err)
	if out, err := exec.Command(f.mkfs[0], append(f.mkfs[1:], image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: got %v; want no error:\n%s", f.mkfs[0], err, out)
	}
}

// needed skips a test where the kernel does not know the file system, and says so at the end. ext4 has to be there.
func (f filesystem) needed(t *testing.T) {
	t.Helper()
	d := newDisk(t, f, scratch(t))
	f.format(t, d.image)
	err := d.mount()
	if errors.Is(err, unix.ENODEV) && f.name != filesystems[0].name {
		summary.add(func(s *tally) { s.absent = append(s.absent, f.name+": this kernel cannot mount it") })
		t.Skip("this kernel cannot mount " + f.name)
	}
	must(t, err)
	must(t, d.unmount())
}

// disk is an image that can be mounted, and lose its power.
type disk struct {
	filesystem
	image string
	at    string // where it is mounted
}

// root is the folder below which prelet works: not the file system's own root, which has a lost+found.
func (d *disk) root() string { return filepath.Join(d.at, "root") }

// look reads the tree below the root.
func (d *disk) look(t *testing.T) tree {
	t.Helper()
	out, err := look(d.root())
	must(t, err)
	return out
}

func newDisk(t *testing.T, f filesystem, dir string) *disk {
	t.Helper()
	d := &disk{filesystem: f, image: filepath.Join(dir, f.name+".img"), at: filepath.Join(dir, f.name)}
	must(t, os.MkdirAll(d.at, 0o755))
	t.Cleanup(func() { _ = unix.Unmount(d.at, unix.MNT_DETACH) }) // of a test that failed in between
	return d
}

// mount attaches the image to a free loop device, which goes with the mount.
func (d *disk) mount() error {
	loop, err := attach(d.image, filepath.Dir(d.at))
	if err != nil {
		return fmt.Errorf("loop device: %w", err)
	}
	defer loop.Close()
	if err := unix.Mount(loop.Name(), d.at, d.name, 0, d.options); err != nil {
		return fmt.Errorf("mount %s: %w", d.name, err)
	}
	return nil
}

func (d *disk) unmount() error {
	for try := 0; ; try++ {
		err := unix.Unmount(d.at, 0)
		if !errors.Is(err, unix.EBUSY) || try == 6000 { // a minute
			return err
		}
		time.Sleep(10 * time.Millisecond) // a process that was killed is still being taken down
	}
}

// cut takes the power from a mounted disk. What was not yet on it is lost.
func (d *disk) cut() error {
	if !d.shutdown {
		left := d.image + ".cut"
		if err := copyImage(d.image, left); err != nil {
			return err
		}
		return errors.Join(d.unmount(), os.Rename(left, d.image))
	}
	f, err := os.Open(d.at)
	if err != nil {
		return err
	}
	const goingDown, noLogFlush = 0x8004587d, 2
	err = unix.IoctlSetPointerInt(int(f.Fd()), goingDown, noLogFlush)
	return errors.Join(err, f.Close(), d.unmount())
}

// attach gives an image a loop device. Its node is made in dir, because not every machine makes one for each device.
func attach(image, dir string) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	for try := 0; ; try++ {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		node := filepath.Join(dir, fmt.Sprint("loop", n))
		if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n)))); err != nil &&
			!errors.Is(err, unix.EEXIST) {
			return nil, err
		}
		loop, err := os.OpenFile(node, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return loop, nil
		}
		loop.Close()
		if !errors.Is(err, unix.EBUSY) || try == 60_000 { // a minute
			return nil, err
		}
		time.Sleep(time.Millisecond) // somebody else took it
	}
}

// copyImage copies a sparse file, holes and pages of zeros left out.
func copyImage(from, to string) error {
	out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cp %s: %w\n%s", from, err, out)
	}

	return nil
}
