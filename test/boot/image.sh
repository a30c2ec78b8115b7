#!/usr/bin/env bash
# Builds the image that the machines of these tests boot: image.sh [--base|--check] [CACHE], as root.
#   CACHE/debian   Debian with systemd, made once (1-2 minutes, 216 MB); remove it for a new one
#   CACHE/openvswitch  Debian's Open vSwitch on top, made once (10 s, 30 MB), for the test that needs it
#   CACHE/layer    the files on top: `make install`, kubeadm's unit, the stand-in kubelet; made again each time
# A part that is made once is made again if its function below has changed: CACHE/NAME.recipe contains the hash.
# --base: make everything except the layer. --check: make nothing, and fail if a part is not up to date with this tree.
# Needs the programs of ../../bin (make build). Installs mmdebstrap and systemd-container if apt-get is available.
set -euo pipefail
cd "$(dirname "$0")"
mode=
case ${1:-} in --base | --check) mode=$1 && shift ;; esac
cache=$(realpath -m "${1:-.cache}")
[ "$(id -u)" = 0 ] || { echo "machines are booted by root only" >&2; exit 1; }

debian() {
	rm -rf "$cache/debian.part"
	mmdebstrap --variant=minbase --mode=root --include=systemd,systemd-sysv,dbus,libpam-systemd,iproute2,procps,strace bookworm "$cache/image.part.tar"
	mkdir "$cache/debian.part"
	tar -C "$cache/debian.part" -xp --numeric-owner -f "$cache/image.part.tar"
	rm "$cache/image.part.tar"
	rm -rf "$cache/debian"
	mv "$cache/debian.part" "$cache/debian"
}

openvswitch() {
	local part=$cache/openvswitch.part
	rm -rf "$part"
	mkdir -p "$part/upper" "$part/work" "$part/root" "$part/debs/partial"
	# Download missing packages with this machine's apt: the image has neither a network nor a list of packages.
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends --download-only \
		-o Dir::State::status="$cache/debian/var/lib/dpkg/status" -o Dir::Cache::archives="$part/debs" install openvswitch-switch
	mount -t overlay overlay -o "lowerdir=$cache/debian,upperdir=$part/upper,workdir=$part/work" "$part/root"
	trap 'umount "$cache/openvswitch.part/root"' EXIT
	mkdir "$part/root/debs"
	cp "$part"/debs/*.deb "$part/root/debs/"
	printf '#!/bin/sh\nexit 101\n' >"$part/root/usr/sbin/policy-rc.d" # services must not start here
	chmod 755 "$part/root/usr/sbin/policy-rc.d"
	DEBIAN_FRONTEND=noninteractive chroot "$part/root" sh -c 'dpkg --force-depends --unpack /debs/*.deb && dpkg --configure -a' >"$part/log" 2>&1 || { cat "$part/log" >&2 && exit 1; }
	rm -r "$part/root/debs" "$part/root/usr/sbin/policy-rc.d"
	umount "$part/root"
	trap - EXIT
	rm -rf "$cache/openvswitch"
	mv "$part/upper" "$cache/openvswitch"
	rm -rf "$part"
}

layer() { # INSTALL DIR: the command INSTALL installs the programs in DIR
	mkdir "$2"
	"$1" "$2" >/dev/null
	cp -r image/. "$2/"
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$2/usr/bin/kubelet" ./standin
	# The only network is loopback, so systemd-networkd would never report that it is online.
	mkdir -p "$2/etc/systemd/system"
	ln -s /dev/null "$2/etc/systemd/system/systemd-networkd-wait-online.service"
}
built() { make -C ../.. install "DESTDIR=$1" PREFIX=/usr; }
as_built() { ../../tools/install.sh "$1" /usr; } # does not build: other processes may use the programs

recipe() { # NAME: prints the functions that make NAME and the parts below it
	{
		declare -f debian
		[ "$1" = debian ] || declare -f "$1"
	} | sha256sum | cut -d' ' -f1
}
current() { [ -d "$cache/$1" ] && [ "$(cat "$cache/$1.recipe" 2>/dev/null)" = "$(recipe "$1")" ]; }

if [ "$mode" = --check ]; then
	for part in debian openvswitch; do
		current $part || { echo "$cache/$part is not what test/boot/image.sh would make now: run it" >&2; exit 1; }
	done
	now=$(mktemp -d "$cache/check.XXXXXX")
	trap 'rm -rf "$now"' EXIT
	layer as_built "$now/layer"
	diff -rq --no-dereference -x doc "$now/layer" "$cache/layer" >&2 || { echo "$cache/layer is of another tree than this: make build, then test/boot/image.sh" >&2; exit 1; }
	exit 0
fi

if ! command -v mmdebstrap >/dev/null || ! command -v systemd-nspawn >/dev/null; then
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap systemd-container iproute2
fi

mkdir -p "$cache"
for part in debian openvswitch; do
	current $part && continue
	rm -f "$cache/$part.recipe"
	$part
	recipe $part >"$cache/$part.recipe"
done

[ "$mode" != --base ] || exit 0
rm -rf "$cache/layer"
layer built "$cache/layer"
