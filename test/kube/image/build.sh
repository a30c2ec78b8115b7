#!/usr/bin/env bash
# Builds the disk that these tests boot, with the recipe of packaging/image: build.sh DISK CACHE DEB [DEB], as root (1-4
# minutes). CACHE has the built components of Kubernetes. The image has the guest agent as well, which runs the tests'
# commands, a pod network, without which no node is Ready, and systemd's part of boot counting. Installs what is missing
# if apt-get is available. GOARCH selects another architecture, whose programs run by binfmt_misc (20 minutes).
# PACKAGES and CMDLINE of the environment are the recipe's.
set -euo pipefail
[ $# -ge 3 ] || { echo "usage: build.sh DISK CACHE DEB [DEB]" >&2; exit 64; }
disk=$(realpath -m "$1") cache=$(realpath "$2") deb=$(realpath "$3")
more=() # a detector's
[ $# = 3 ] || more+=("$(realpath "$4")")
cd "$(dirname "$0")"
version=$(cd .. && go list -m -f '{{.Version}}' k8s.io/kubernetes)
arch=$(go env GOARCH)
case $arch in
amd64) qemu=x86 program=qemu-system-x86_64 firmware=ovmf file=/usr/share/OVMF/OVMF_CODE_4M.fd systemd=x86-64 ;;
arm64) qemu=arm program=qemu-system-aarch64 firmware=qemu-efi-aarch64 file=/usr/share/AAVMF/AAVMF_CODE.fd systemd=arm64 ;;
esac

missing=()
while read -r tool package; do
	command -v "$tool" >/dev/null || [ -e "$tool" ] || missing+=("$package")
done <<-EOF
	$program qemu-system-$qemu
	qemu-img qemu-utils
	$file $firmware
	swtpm swtpm
	mmdebstrap mmdebstrap
	arch-test arch-test
	sfdisk fdisk
	mkfs.ext4 e2fsprogs
	mkfs.vfat dosfstools
	mcopy mtools
	mksquashfs squashfs-tools
	systemd-repart systemd-repart
	veritysetup cryptsetup-bin
	openssl openssl
	setfiles policycoreutils
EOF
if [ ${#missing[@]} -gt 0 ]; then
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# The kubelet with kubeadm's unit, as its package has them.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
mkdir "$tree/kubelet"
cp -r ../../boot/image/. "$tree/kubelet"
if [ "$arch" = "$(go env GOHOSTARCH)" ]; then
	install -D -t "$tree/kubelet/usr/bin" "$cache/$version/kubelet"
else
	(cd .. && CGO_ENABLED=0 go build -p 2 -trimpath -buildvcs=false -o "$tree/kubelet/usr/bin/" \
		-ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$version" k8s.io/kubernetes/cmd/kubelet)
fi

# On a busy host QEMU without KVM is too slow for the kernel's test of its timer, which panics.
export CMDLINE="no_timer_check ${CMDLINE:-}"

image=../../../packaging/image
mkdir -p "$(dirname "$disk")"
ARCH=$arch PACKAGES="qemu-guest-agent systemd-boot ${PACKAGES:-}" "$image/mmdebstrap/build.sh" "$disk" "${version#v}" \
	"$tree/kubelet" "$deb" "${more[@]}" "$image/node" "$image/site" root

# The same prelet, and a detector, as system extensions, also with dm-verity and a signature.
to=$(dirname "$disk")
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -days 2 -keyout "$tree/key" -out "$to/prelet-verity.crt" 2>&1
for deb in "$deb" "$to"/prelet-detector-lldp_*.deb; do
	[ -e "$deb" ] || continue
	name=${deb##*/} name=${name%%_*}
	dpkg -x "$deb" "$tree/$name"
	../../../tools/sysext.sh "$tree/$name" "$name" $systemd "$to/$name.raw"
	../../../tools/verity.sh "$to/$name.raw" $systemd "$to/$name.verity.raw" "$tree/key" "$to/prelet-verity.crt"
done
