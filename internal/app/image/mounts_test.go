package image

import (
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// onBuilder is that of a machine that builds an image in /mnt/image, and others in a folder of its own disk.
const onBuilder = `22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:20 / /tmp rw - tmpfs tmpfs rw
30 22 7:1 / /mnt/image rw shared:1 - ext4 /dev/loop1 rw
31 30 7:2 / /mnt/image/boot rw - vfat /dev/loop2 rw
32 30 0:20 / /mnt/image/tmp rw - tmpfs tmpfs rw
33 30 8:1 /etc/machine-id /mnt/image/etc/machine-id rw - ext4 /dev/sda1 rw
34 30 8:1 /srv /mnt/image/var/lib/cloud/instances/i\0401/data rw - ext4 /dev/sda1 rw
35 30 7:1 /data/prelet /mnt/image/var/lib/prelet rw - ext4 /dev/loop1 rw
40 22 0:40 /@ /mnt/btrfs rw - btrfs /dev/loop3 rw
41 40 0:40 /@var /mnt/btrfs/var rw - btrfs /dev/loop3 rw
50 22 8:1 /images/a/cache /images/a/var rw - ext4 /dev/sda1 rw
`

// inChroot is the same seen from a chroot in a folder, where only mounts in that folder are visible.
const inChroot = `33 30 8:1 /tmp /tmp rw - ext4 /dev/sda1 rw
34 30 0:21 / /proc rw - proc proc rw
`

// onOSTree is that of a machine whose root and /var are folders of one file system.
const onOSTree = `22 1 8:4 /ostree/deploy/os/deploy/1.0 / rw - ext4 /dev/sda4 rw
23 22 8:4 / /sysroot ro - ext4 /dev/sda4 rw
24 22 8:4 /ostree/deploy/os/var /var rw - ext4 /dev/sda4 rw
25 22 8:2 / /boot rw - ext4 /dev/sda2 rw
`

func TestFindForeign(t *testing.T) {
	for name, c := range map[string]struct {
		text, root, file, want string
	}{
		"the image":              {onBuilder, "/mnt/image", "/etc/ssh/ssh_host_rsa_key", ""},
		"its boot":               {onBuilder, "/mnt/image", "/boot/loader/random-seed", ""},
		"tmp of the machine":     {onBuilder, "/mnt/image", "/tmp/a.prelet", "/mnt/image/tmp"},
		"one file":               {onBuilder, "/mnt/image", "/etc/machine-id", "/mnt/image/etc/machine-id"},
		"below a folder":         {onBuilder, "/mnt/image", "/var/lib/cloud/instances/i 1", "/mnt/image/var/lib/cloud/instances/i 1/data"},
		"a name that begins so":  {onBuilder, "/mnt/image", "/var/lib/cloud/instances/i", ""},
		"of the image itself":    {onBuilder, "/mnt/image", "/var/lib/prelet/journal", ""},
		"a subvolume":            {onBuilder, "/mnt/btrfs", "/var/lib/prelet/journal", ""},
		"a folder as image":      {onBuilder, "/images/b", "/var/lib/prelet/journal", ""},
		"a mount in such a one":  {onBuilder, "/images/a", "/var/lib/prelet/journal", "/images/a/var"},
		"in a chroot":            {inChroot, "", "/tmp/a.prelet", "/tmp"},
		"in a chroot, the image": {inChroot, "", "/etc/machine-id", ""},
		"var of OSTree":          {onOSTree, "", "/var/lib/prelet/journal", ""},
		"boot of OSTree":         {onOSTree, "", "/boot/loader/random-seed", ""},
		"without a list of them": {"", "/mnt/image", "/etc/machine-id", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := parseMounts(c.root, []byte(c.text))
			if got := m.findForeign(c.file); got != c.want || err != nil {
				t.Errorf("%s in %q: got %q, %v; want %q", c.file, c.root, got, err, c.want)
			}
		})
	}
}

// Where the mounts are not known, the image cannot be examined: a removal could change files outside of it. A chroot
// without /proc has no list of them.
func TestMountsUnknown(t *testing.T) {
	root := nodefile.Root(t.TempDir())
	for name, c := range map[string]struct {
		o    Options
		want int // unread
	}{
		"damaged":    {Options{Root: root, Mounts: []byte("22 1 8:1\n")}, 1},
		"unreadable": {Options{Root: root, MountsErr: unix.EIO}, 1},
		"missing":    {Options{Root: root, MountsErr: fs.ErrNotExist}, 0},
	} {
		if got := Find(c.o).Unread; len(got) != c.want {
			t.Errorf("%s: got %v unread; want %d", name, got, c.want)
		}
	}
}
