package generation

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// TestAttributeWithoutItsCapability: a file with an extended attribute that this process may not set is refused before
// anything is written, with the name of the attribute. With the capability the attribute is kept.
func TestAttributeWithoutItsCapability(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to set security.capability")
	}
	b := newBox(t)
	b.write("/etc/kubernetes/a", "old", 0o644)
	const attribute = "security.capability"
	const revision2 = "\x00\x00\x00\x02"
	capability := []byte(revision2 + strings.Repeat("\x00\x04\x00\x00", 2) + strings.Repeat("\x00", 8))
	if err := unix.Setxattr(b.path("/etc/kubernetes/a"), attribute, capability[:20], 0); err != nil {
		t.Skip("the file system has no capabilities of files: ", err)
	}
	state, err := nodefile.Root(b.root).Observe("/etc/kubernetes/a", 1<<20)
	if len(state.Attributes) != 1 || state.Attributes[0] != attribute || err != nil {
		t.Errorf("Observe: got attributes %q, error %v; want %s", state.Attributes, err, attribute)
	}

	s := b.open()
	next := plan("p1", file("/etc/kubernetes/a", "new"))
	restore := dropCapability(t, unix.CAP_SETFCAP)
	_, err = apply(s, next)
	restore()
	var f *fault.Fault
	isNamed := errors.As(err, &f) && strings.Contains(f.Error()+f.Next, "setfattr -x "+attribute+" ")
	if fault.CodeOf(err) != fault.CannotWrite || !isNamed || !strings.Contains(f.Error(), "CAP_SETFCAP") {
		t.Errorf("without CAP_SETFCAP: got %v, want a refusal that names %s and the capability", err, attribute)
	}
	if got := b.read("/etc/kubernetes/a"); got != "old" {
		t.Errorf("without CAP_SETFCAP: got content %q, want old", got)
	}

	b.apply(s, next)
	buf := make([]byte, nodefile.MaxAttribute)
	n, err := unix.Getxattr(b.path("/etc/kubernetes/a"), attribute, buf)
	if got := b.read("/etc/kubernetes/a"); got != "new" || err != nil || n == 0 {
		t.Errorf("with it: got content %q, %d bytes of %s, error %v; want new and the attribute", got, n, attribute, err)
	}
}

// TestLabelThatCannotBeSet: a labelled disk boots without SELinux (EPERM, except for CAP_SYS_ADMIN), or with a policy that
// has lost the label (EINVAL): the file gets that of its folder. If SELinux forbids the label (EACCES), nothing changes.
func TestLabelThatCannotBeSet(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to set security.selinux")
	}
	for refusal, want := range map[unix.Errno]string{unix.EPERM: "new", unix.EINVAL: "new", unix.EACCES: "old"} {
		b := newBox(t)
		b.write("/etc/kubernetes/a", "old", 0o644)
		if err := unix.Setxattr(b.path("/etc/kubernetes/a"), "security.selinux", []byte("label\x00"), 0); err != nil {
			t.Skip("this label cannot be set here: ", err)
		}
		count := 0
		b.o.Fault = func(op, _ string) error {
			if op != opSetxattr {
				return nil
			}
			count++
			return refusal
		}

		_, err := apply(b.open(), plan("p1", file("/etc/kubernetes/a", "new")))
		if got := b.read("/etc/kubernetes/a"); got != want || (err == nil) != (want == "new") || count == 0 {
			t.Errorf("with %v: got content %q, error %v after %d calls; want %s", refusal, got, err, count, want)
		}
	}
}

// TestLabelOfNewFile: a new file gets the label of its folder, also if the kernel gives it another.
func TestLabelOfNewFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to set security.selinux")
	}
	b := newBox(t)
	b.write("/etc/kubernetes/other", "", 0o644)
	if err := unix.Setxattr(b.path("/etc/kubernetes"), "security.selinux", []byte("of_folder_t\x00"), 0); err != nil {
		t.Skip("this label cannot be set here: ", err)
	}

	b.apply(b.open(), plan("p1", file("/etc/kubernetes/a", "new")))
	buf := make([]byte, nodefile.MaxAttribute)
	n, err := unix.Getxattr(b.path("/etc/kubernetes/a"), "security.selinux", buf)
	if err != nil || string(buf[:max(n, 0)]) != "of_folder_t\x00" {
		t.Errorf("label of a new file: got %q, %v; want of_folder_t", buf[:max(n, 0)], err)
	}
}

// dropCapability takes a capability from this thread, which the goroutine keeps until the capability is restored.
func dropCapability(t *testing.T, number uint) (restore func()) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var was [2]unix.CapUserData
	must(t, unix.Capget(&header, &was[0]))
	now := was
	now[number/32].Effective &^= 1 << (number % 32)
	must(t, unix.Capset(&header, &now[0]))

	return func() {
		must(t, unix.Capset(&header, &was[0]))
		runtime.UnlockOSThread()
	}
}
