#!/usr/bin/env bash
# Builds a golden image of Debian 12, as root:
#
#   build.sh OUT.raw KUBELET_VERSION FILE_OR_FOLDER...
#
# OUT.raw is a disk with an EFI system partition and an ext4 root, which UEFI starts. Of the arguments after the
# version, a .deb is installed, and a folder is copied over the root. These make a node:
#
#   dist/prelet_*.deb      prelet: `make package`
#   kubelet/               usr/bin/kubelet, kubelet.service and 10-kubeadm.conf, as kubelet.sh here collects them
#   node/                  here: containerd, network, kernel modules, in Debian's places
#   my-site/               usr/lib/prelet/site/*.hcl
#
# Environment: PACKAGES, further Debian packages; SIZE of the disk (4G); CMDLINE, kernel parameters; ARCH, amd64 or arm64,
# of this machine otherwise. Another than its own needs arch-test, and qemu-user-static that is registered in binfmt_misc.
# It needs mmdebstrap, fdisk, e2fsprogs, dosfstools and mtools, for SELinux policycoreutils, and neither
# loop devices nor a virtual machine.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 64; }
export PATH=$PATH:/usr/sbin:/sbin
missing=()
for tool in mmdebstrap:mmdebstrap sfdisk:fdisk mkfs.ext4:e2fsprogs mkfs.vfat:dosfstools mcopy:mtools; do
	command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
	echo "missing programs: apt-get install ${missing[*]}" >&2
	exit 1
fi
for part in "${@:3}"; do
	[ -e "$part" ] || { echo "$part: no such file or folder" >&2; exit 1; }
done
out=$1 kubelet=$2
shift 2
arch=${ARCH:-$(dpkg --print-architecture)}
case $arch in # names of systemd's boot loader, the type of a root partition, the serial console
amd64) efi=x64 root_type=4f68bce3-e8cd-4db1-96e7-fbcaf984b709 console=ttyS0 ;;
arm64) efi=aa64 root_type=b921b045-1df0-41c3-af44-4c6f280d3fae console=ttyAMA0 ;;
*) echo "$arch: no image of this architecture; it must be amd64 or arm64" >&2; exit 64 ;;
esac
work=$(mktemp -d "$(dirname "$out")/.golden.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root

# 1. Debian: a kernel for virtual machines (linux-image-$arch has the drivers of others), systemd, a container runtime.
# libtss2 is what systemd needs to use a TPM.
packages=(systemd systemd-sysv systemd-resolved systemd-timesyncd dbus udev kmod iproute2 ca-certificates
	"linux-image-cloud-$arch" initramfs-tools zstd systemd-boot-efi e2fsprogs
	containerd runc containernetworking-plugins
	libtss2-esys-3.0.2-0 libtss2-mu0 libtss2-rc0 libtss2-tcti-device0)

# 2. The kubelet, prelet, the site, in the order of the arguments. Links, such as those of enabled units, stay links.
hooks=()
for part in "$@"; do
	if [ -d "$part" ]; then
		hooks+=(--customize-hook="cp -rP '$part/.' \"\$1\"")
	else
		deb=/var/cache/apt/archives/${part##*/}
		hooks+=(--customize-hook="upload '$part' '$deb'")
		hooks+=(--customize-hook="chroot \"\$1\" apt-get install -y --no-install-recommends '$deb'")
	fi
done
mmdebstrap --mode=root --variant=minbase --architectures="$arch" --aptopt='APT::Install-Recommends "false"' --dpkgopt=force-unsafe-io \
	--include="${packages[*]} ${PACKAGES:-}" "${hooks[@]}" bookworm "$root"

# 3. What makes it the image of many machines: it has no name, and gets an id at the first boot. prelet checks the image
# and removes what is of one machine.
rm -f "$root"/etc/{hostname,machine-id,apt/apt.conf.d/99mmdebstrap,dpkg/dpkg.cfg.d/99mmdebstrap}
: >"$root/etc/machine-id"
echo 'LABEL=root / ext4 defaults 0 1' >"$root/etc/fstab"
chroot "$root" systemctl enable systemd-networkd systemd-resolved containerd kubelet prelet prelet-verify
"$root/usr/bin/prelet" seal --root "$root" --kubelet-version "$kubelet" --yes
# With SELinux (PACKAGES=selinux-policy-default), prelet's module, and the labels that the policy gives the files.
if [ -e "$root/etc/selinux/config" ]; then
	chroot "$root" semodule -n -i /usr/share/prelet/selinux/prelet.cil
	policy=$(sed -n 's/^SELINUXTYPE=//p' "$root/etc/selinux/config")
	setfiles -F -r "$root" "$root/etc/selinux/$policy/contexts/files/file_contexts" "$root"
fi

# 4. The disk: GPT with an ESP, which has systemd-boot, the kernel and its initramfs, and the root file system.
truncate -s "${SIZE:-4G}" "$work/disk"
sfdisk -q "$work/disk" <<-EOF
	label: gpt
	start=1MiB, size=255MiB, type=uefi, name=esp
	start=256MiB, type=$root_type, name=root
EOF
size=$(($(stat -c %s "$work/disk") - (257 << 20))) # the last MiB has the copy of the GPT
mkfs.ext4 -q -L root -d "$root" -E "offset=$((256 << 20))" "$work/disk" "$((size >> 10))k"

cat >"$work/loader.conf" <<<'timeout 0'
cat >"$work/debian.conf" <<-EOF
	title Debian
	linux /vmlinuz
	initrd /initrd.img
	options root=LABEL=root rw console=tty0 console=$console ${CMDLINE:-}
EOF
esp=$work/esp
mkfs.vfat -F 32 -s 1 -n ESP -C "$esp" $((255 << 10)) >/dev/null
mmd -i "$esp" ::EFI ::EFI/BOOT ::loader ::loader/entries
mcopy -i "$esp" "$root/usr/lib/systemd/boot/efi/systemd-boot$efi.efi" "::EFI/BOOT/BOOT${efi^^}.EFI"
mcopy -i "$esp" "$work/loader.conf" ::loader/loader.conf
mcopy -i "$esp" "$work/debian.conf" ::loader/entries/debian.conf
mcopy -i "$esp" "$root"/boot/vmlinuz-* ::vmlinuz
mcopy -i "$esp" "$root"/boot/initrd.img-* ::initrd.img
dd if="$esp" of="$work/disk" bs=1M seek=1 conv=notrunc,sparse status=none

mv "$work/disk" "$out"
