#!/usr/bin/env bash
# Makes what the tests need, as root: prepare.sh KUBE_CACHE, the folder that test/kube/build.sh has filled.
#   .cache/parts   what a user brings for an image: the deb, the kubelet, its unit
#   .cache/node    the image, by packaging/image/mkosi, with tools that the recipes need (2 to 4 minutes, 1.1 GB)
#   .cache/node.squashfs  the same, for machines without a disk
#   .cache/bin     butane
# The image is made again if a part of it has changed. Installs the tools if apt-get is available.
set -euo pipefail
cd "$(dirname "$0")"
[ "$(id -u)" = 0 ] || { echo "machines are booted by root only" >&2; exit 1; }
kubelet=$(find "$(realpath "${1:?the folder of test/kube/build.sh}")" -path '*/v*/kubelet' | sort -V | tail -n 1)
cache=$PWD/.cache

missing=()
for tool in mkosi:mkosi debootstrap:debootstrap systemd-nspawn:systemd-container ansible-playbook:ansible \
	packer:packer buildah:buildah ssh-keygen:openssh-client qemu-system-x86_64:qemu-system-x86 mksquashfs:squashfs-tools \
	dnsmasq:dnsmasq-base ip:iproute2 setfiles:policycoreutils; do
	PATH=$PATH:/usr/sbin command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
[ -e /usr/lib/dracut/modules.d/30ignition/ignition ] || missing+=(ignition)
[ -e /usr/lib/ipxe/qemu ] || missing+=(ipxe-qemu)
if [ ${#missing[@]} -gt 0 ]; then
	apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300)
	"${apt[@]}" update
	"${apt[@]}" install --no-install-recommends "${missing[@]}"
fi

mkdir -p "$cache/bin" "$cache/packages"
CGO_ENABLED=0 go build -trimpath -modfile=../../tools/butane/go.mod -o "$cache/bin/butane" \
	github.com/coreos/butane/internal

parts=$cache/parts
rm -rf "$parts"
mkdir -p "$parts/usr/bin" "$parts/var/cache/debs"
CGO_ENABLED=0 ../../tools/package.sh "$(../../tools/version.sh)" "$parts/var/cache/debs" >/dev/null
rm "$parts"/var/cache/debs/*.rpm "$parts"/var/cache/debs/prelet-doc_*
cp -r ../boot/image/. ../../packaging/image/site/. "$parts/"
cp "$kubelet" "$parts/usr/bin/kubelet"

recipe=$(cat prepare.sh <(cd ../../packaging/image && find mkosi node recipes/pxe/image "$parts" -type f -print0 |
	sort -z | xargs -0 sha256sum) | sha256sum)
[ "$(cat "$cache/node.recipe" 2>/dev/null)" != "$recipe" ] || exit 0

# systemd-nspawn, which mkosi uses, needs a /run in memory; not all machines that run tests have one.
rm -f "$cache/node.recipe"
cd ../../packaging/image/mkosi
KUBELET_VERSION=$("$kubelet" --version | sed 's/.* v\([0-9]*\.[0-9]*\).*/\1/')
export KUBELET_VERSION
# shellcheck disable=SC2016
unshare --mount --propagation slave sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' sh \
	mkosi --nspawn-keep-unit --force --cache "$cache/packages" --workspace-dir "$cache" \
	--output "$cache/node" --package cloud-init,curl,python3,openssh-server,live-boot \
	--extra-tree ../recipes/pxe/image --extra-tree "$parts" build
# Instead of mkosi's plain_squashfs, which would build the image twice.
mksquashfs "$cache/node" "$cache/node.squashfs" -noappend -quiet -comp zstd -Xcompression-level 1
echo "$recipe" >"$cache/node.recipe"
