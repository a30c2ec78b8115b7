package image

import (
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
	cases "github.com/prelet/prelet/internal/testing/table"
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

// onOSTree is that of a machine whose root and /var are folders of one file system, and onComposefs that of one whose
// root is an overlay.
const (
	onOSTree = `22 1 8:4 /ostree/deploy/os/deploy/1.0 / rw - ext4 /dev/sda4 rw
23 22 8:4 / /sysroot ro - ext4 /dev/sda4 rw
24 22 8:4 /ostree/deploy/os/var /var rw - ext4 /dev/sda4 rw
25 22 8:2 / /boot rw - ext4 /dev/sda2 rw
26 22 0:50 / /home rw - nfs4 server:/home rw
`
	onComposefs = `22 1 0:30 / / ro - overlay composefs ro
23 22 8:4 / /sysroot ro - ext4 /dev/sda4 rw
24 22 8:4 /ostree/deploy/os/var /var rw - ext4 /dev/sda4 rw
`
)

// What is mounted of the machine that runs a container, by the file system of that machine and by the container.
const (
	inPodman = `22 1 0:60 / / rw - overlay overlay rw
23 22 0:40 /@home/me /root rw - btrfs /dev/sda2 rw
24 22 8:5 / /home rw - ext4 /dev/sda5 rw
`
	inPodmanOnBtrfs = `22 1 0:40 /@/var/lib/containers/storage/btrfs/subvolumes/1 / rw - btrfs /dev/sda2 rw
23 22 0:40 /@home/me /root rw - btrfs /dev/sda2 rw
`
	withHost = `22 1 0:60 / / rw - overlay overlay rw
23 22 8:1 / /host rw - ext4 /dev/sda1 rw
24 22 8:1 /root /root rw - ext4 /dev/sda1 rw
`
	inNspawn = `22 1 8:1 /var/lib/machines/a / rw - ext4 /dev/sda1 rw
23 22 8:1 /home/me /root rw - ext4 /dev/sda1 rw
24 22 8:1 /var/lib/machines/a/data /var/lib/prelet rw - ext4 /dev/sda1 rw
`
)

func TestFindForeign(t *testing.T) {
	for name, c := range cases.YAML[map[string]struct {
		Mounts, Root string
		IsWhole      bool // not in a container or a chroot
		File, Want   string
	}](t, `
the image: {mounts: '{onBuilder}', root: /mnt/image, isWhole: true, file: /etc/ssh/ssh_host_rsa_key}
its boot: {mounts: '{onBuilder}', root: /mnt/image, isWhole: true, file: /boot/loader/random-seed}
its boot, in a container:
  {mounts: '{onBuilder}', root: /mnt/image, file: /boot/loader/random-seed, want: /mnt/image/boot}
tmp of the machine:
  {mounts: '{onBuilder}', root: /mnt/image, isWhole: true, file: /tmp/a.prelet, want: /mnt/image/tmp}
one file:
  {mounts: '{onBuilder}', root: /mnt/image, isWhole: true, file: /etc/machine-id, want: /mnt/image/etc/machine-id}
below a folder:
  mounts: '{onBuilder}'
  root: /mnt/image
  isWhole: true
  file: /var/lib/cloud/instances/i 1
  want: /mnt/image/var/lib/cloud/instances/i 1/data
a name that begins so: {mounts: '{onBuilder}', root: /mnt/image, isWhole: true, file: /var/lib/cloud/instances/i}
of the image itself: {mounts: '{onBuilder}', root: /mnt/image, file: /var/lib/prelet/journal}
a subvolume: {mounts: '{onBuilder}', root: /mnt/btrfs, isWhole: true, file: /var/lib/prelet/journal}
a subvolume, in a container:
  {mounts: '{onBuilder}', root: /mnt/btrfs, file: /var/lib/prelet/journal, want: /mnt/btrfs/var}
a folder as image: {mounts: '{onBuilder}', root: /images/b, isWhole: true, file: /var/lib/prelet/journal}
a mount in such a one:
  {mounts: '{onBuilder}', root: /images/a, isWhole: true, file: /var/lib/prelet/journal, want: /images/a/var}
in a chroot: {mounts: '{inChroot}', file: /tmp/a.prelet, want: /tmp}
in a chroot, the image: {mounts: '{inChroot}', file: /etc/machine-id}
var of OSTree: {mounts: '{onOSTree}', isWhole: true, file: /var/lib/prelet/journal}
boot of OSTree: {mounts: '{onOSTree}', isWhole: true, file: /boot/loader/random-seed}
var of composefs: {mounts: '{onComposefs}', isWhole: true, file: /var/lib/prelet/journal}
a server's home: {mounts: '{onOSTree}', isWhole: true, file: /home/me/.kube/config, want: /home}
a folder of btrfs: {mounts: '{inPodman}', file: /root/.kube/config, want: /root}
a whole file system: {mounts: '{inPodman}', file: /home/me/.kube/config, want: /home}
a container on btrfs: {mounts: '{inPodmanOnBtrfs}', file: /root/.kube/config, want: /root}
with the host's root: {mounts: '{withHost}', file: /root/.kube/config, want: /root}
a container in a folder: {mounts: '{inNspawn}', file: /root/.kube/config, want: /root}
and of itself: {mounts: '{inNspawn}', file: /var/lib/prelet/journal}
without a list of them: {root: /mnt/image, isWhole: true, file: /etc/machine-id}
`, "onBuilder", onBuilder, "inChroot", inChroot, "onOSTree", onOSTree, "onComposefs", onComposefs,
		"inPodman", inPodman, "inPodmanOnBtrfs", inPodmanOnBtrfs, "withHost", withHost, "inNspawn", inNspawn) {
		t.Run(name, func(t *testing.T) {
			m, err := parseMounts(c.Root, []byte(c.Mounts))
			m.isWhole = c.IsWhole
			if got := m.findForeign(c.File); got != c.Want || err != nil {
				t.Errorf("%s in %q: got %q, %v; want %q", c.File, c.Root, got, err, c.Want)
			}
		})
	}
}

// Where the mounts are not known, the image cannot be examined: a removal could change files outside of it.
func TestMountsUnknown(t *testing.T) {
	root := nodefile.Root(t.TempDir())
	for name, c := range map[string]struct {
		o    Subject
		want int // unread
	}{
		"damaged":    {Subject{Root: root, Mounts: []byte("22 1 8:1\n")}, 1},
		"unreadable": {Subject{Root: root, MountsErr: unix.EIO}, 1},
		"missing":    {Subject{Root: root, MountsErr: fs.ErrNotExist}, 1},
		"none":       {Subject{Root: root}, 0},
	} {
		if got := Find(c.o).Unread; len(got) != c.want {
			t.Errorf("%s: got %v unread; want %d", name, got, c.want)
		}
	}
}
