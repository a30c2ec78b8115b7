#!/usr/bin/env bash
# Builds the disk that these tests boot, with the recipe of packaging/image: build.sh DISK CACHE DEB, as root (1-4
# minutes). CACHE has the built components of Kubernetes. The image has the guest agent as well, which runs the tests'
# commands, and a pod network, without which no node is Ready. Installs what is missing if apt-get is available.
set -euo pipefail
[ $# = 3 ] || { echo "usage: build.sh DISK CACHE DEB" >&2; exit 64; }
disk=$(realpath -m "$1") cache=$(realpath "$2") deb=$(realpath "$3")
cd "$(dirname "$0")"
version=$(cd .. && go list -m -f '{{.Version}}' k8s.io/kubernetes)

missing=()
while read -r tool package; do
	command -v "$tool" >/dev/null || [ -e "$tool" ] || missing+=("$package")
done <<-EOF
	qemu-system-x86_64 qemu-system-x86
	qemu-img qemu-utils
	/usr/share/OVMF/OVMF_CODE_4M.fd ovmf
	swtpm swtpm
	mmdebstrap mmdebstrap
	sfdisk fdisk
	mkfs.ext4 e2fsprogs
	mkfs.vfat dosfstools
	mcopy mtools
	mksquashfs squashfs-tools
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
install -D -t "$tree/kubelet/usr/bin" "$cache/$version/kubelet"

image=../../../packaging/image
mkdir -p "$(dirname "$disk")"
PACKAGES=qemu-guest-agent "$image/mmdebstrap/build.sh" "$disk" "${version#v}" \
	"$tree/kubelet" "$deb" "$image/node" "$image/site" root

# The same prelet as a system extension.
dpkg -x "$deb" "$tree/extension"
../../../tools/sysext.sh "$tree/extension" x86-64 "$(dirname "$disk")/prelet.raw"
