package image

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// secondRoot puts the state of the running image into the root of the other one, as an update of images does, with a
// boot entry that systemd-boot tries twice. The other image checks itself, and its container runtime is broken.
const secondRoot = `mkdir -p /mnt/other /mnt/esp
mount /dev/vdb2 /mnt/other
cp -a /etc/. /mnt/other/etc/
cp -a /var/lib/prelet /var/lib/kubelet /mnt/other/var/lib/
mkdir -p /mnt/other/efi
printf '%s\n' '/dev/vdb2 / ext4 defaults 0 1' '/dev/vda1 /efi vfat umask=077 0 0' >/mnt/other/etc/fstab
systemctl --root=/mnt/other enable prelet-boot-check.service
systemctl --root=/mnt/other mask containerd.service
umount /mnt/other
mount /dev/vda1 /mnt/esp
sed 's|root=[^ ]*|root=/dev/vdb2|' /mnt/esp/loader/entries/debian.conf >/mnt/esp/loader/entries/other+2.conf
umount /mnt/esp`

// repaired repairs the other image, and gives it two new tries.
const repaired = `mount /dev/vdb2 /mnt/other
rm /mnt/other/etc/systemd/system/containerd.service
umount /mnt/other
mount /dev/vda1 /mnt/esp
mv /mnt/esp/loader/entries/other+0-2.conf /mnt/esp/loader/entries/other+2.conf
umount /mnt/esp`

// TestCounting boots a second image whose kubelet cannot run: its boots are not marked as good, and when its tries are
// used up, systemd-boot starts the first image. Repaired, it is marked as good.
func TestCounting(t *testing.T) {
	c := newCluster(t)
	m := newMachine(t, "COUNT-1")
	const name = "count-1"
	other := m.path("other")
	m.command("cp", "--sparse=always", os.Getenv(imageVariable), other)
	m.command("e2label", other+"?offset=268435456", "other") // where build.sh puts a root
	args := slices.Concat(credentials(t, c), m.smbiosToken(c.Token),
		[]string{"-drive", "if=virtio,format=raw,file=" + other})

	m.start(args...)
	n := node(t, c, m, name)
	m.healthy()
	m.run("sh", "-ec", secondRoot)

	// booted checks which root and which boot entries there are.
	booted := func(root, entry string) {
		t.Helper()
		if got := strings.TrimSpace(m.run("findmnt", "-n", "-o", "SOURCE", "/")); got != root {
			t.Fatalf("root: got %s; want %s", got, root)
		}
		got := m.run("sh", "-ec", "mkdir -p /mnt/look; mount /dev/vda1 /mnt/look; ls /mnt/look/loader/entries; umount /mnt/look")
		if want := "debian.conf " + entry; strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("boot entries: got %q; want %q", strings.Fields(got), want)
		}
	}
	for try := range 2 {
		m.reboot()
		m.within(12*time.Minute, "the check of the image has ended", func() string {
			if got := m.property("prelet-boot-check", "ActiveState"); got != "failed" {
				return got
			}
			return ""
		})
		booted("/dev/vdb2", fmt.Sprintf("other+%d-%d.conf", 1-try, try+1))
		if got := m.property("boot-complete.target", "ActiveState"); got != "inactive" {
			t.Errorf("boot-complete.target: got %s; want inactive", got)
		}
		t.Logf("try %d of the second image:\n%s", try+1, m.try("sh", "-c",
			"prelet status; journalctl -b --no-pager -o cat -u prelet-boot-check -u systemd-bless-boot"))
	}

	m.reboot()
	booted("/dev/vda2", "other+0-2.conf")
	m.healthy()
	if again := node(t, c, m, name); again.UID != n.UID {
		t.Errorf("on the first image again: got Node %s; want %s", again.UID, n.UID)
	}

	m.run("sh", "-ec", repaired)
	m.reboot()
	m.healthy()
	m.within(12*time.Minute, "the boot is marked as good", func() string {
		if got := m.property("systemd-bless-boot", "ActiveState"); got != "active" {
			return got
		}
		return ""
	})
	booted("/dev/vdb2", "other.conf")
	t.Logf("the second image, repaired:\n%s", m.try("sh", "-c",
		"journalctl -b --no-pager -o cat -u prelet-boot-check -u systemd-bless-boot"))
}
