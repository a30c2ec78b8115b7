#!/usr/bin/env bash
# Makes what the machines of these tests boot from: image.sh [--base] [CACHE], as root. --base: all but the layer.
#   CACHE/debian   Debian with systemd, made once (1-2 minutes, 216 MB); remove it for a new one
#   CACHE/openvswitch  Debian's Open vSwitch on top, made once (10 s, 30 MB), for the test that wants it
#   CACHE/layer    what lies on it: `make install`, kubeadm's unit, the stand-in kubelet; made anew each time
# Needs the programs of ../../bin (make build). Installs mmdebstrap and systemd-container where apt-get can.
set -euo pipefail
cd "$(dirname "$0")"
base=
[ "${1:-}" != --base ] || { base=only && shift; }
cache=$(realpath -m "${1:-.cache}")
[ "$(id -u)" = 0 ] || { echo "machines are booted by root only" >&2; exit 1; }

if ! command -v mmdebstrap >/dev/null || ! command -v systemd-nspawn >/dev/null; then
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap systemd-container iproute2
fi

mkdir -p "$cache"
if [ ! -d "$cache/debian" ]; then
	[ -s "$cache/image.tar" ] || {
		mmdebstrap --variant=minbase --mode=root --include=systemd,systemd-sysv,dbus,libpam-systemd,iproute2,procps bookworm "$cache/image.part.tar"
		mv "$cache/image.part.tar" "$cache/image.tar"
	}
	rm -rf "$cache/debian.part"
	mkdir "$cache/debian.part"
	tar -C "$cache/debian.part" -xp --numeric-owner -f "$cache/image.tar"
	mv "$cache/debian.part" "$cache/debian"
	rm "$cache/image.tar"
fi

if [ ! -d "$cache/openvswitch" ]; then
	part=$cache/openvswitch.part
	rm -rf "$part"
	mkdir -p "$part/upper" "$part/work" "$part/root" "$part/debs/partial"
	# What the image lacks, by this machine's apt: in the image there is neither a network nor a list of packages.
	DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 --no-install-recommends --download-only \
		-o Dir::State::status="$cache/debian/var/lib/dpkg/status" -o Dir::Cache::archives="$part/debs" install openvswitch-switch
	mount -t overlay overlay -o "lowerdir=$cache/debian,upperdir=$part/upper,workdir=$part/work" "$part/root"
	trap 'umount "$part/root"' EXIT
	mkdir "$part/root/debs"
	cp "$part"/debs/*.deb "$part/root/debs/"
	printf '#!/bin/sh\nexit 101\n' >"$part/root/usr/sbin/policy-rc.d" # nothing is started here
	chmod 755 "$part/root/usr/sbin/policy-rc.d"
	DEBIAN_FRONTEND=noninteractive chroot "$part/root" sh -c 'dpkg --force-depends --unpack /debs/*.deb && dpkg --configure -a' >"$part/log" 2>&1 || { cat "$part/log" >&2 && exit 1; }
	rm -r "$part/root/debs" "$part/root/usr/sbin/policy-rc.d"
	umount "$part/root"
	trap - EXIT
	mv "$part/upper" "$cache/openvswitch"
	rm -rf "$part"
fi

[ -z "$base" ] || exit 0
rm -rf "$cache/layer"
mkdir "$cache/layer"
make -C ../.. install "DESTDIR=$cache/layer" PREFIX=/usr >/dev/null
cp -r image/. "$cache/layer/"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/layer/usr/bin/kubelet" ./standin
# No network but loopback, so nothing will ever say that it is online.
mkdir -p "$cache/layer/etc/systemd/system"
ln -s /dev/null "$cache/layer/etc/systemd/system/systemd-networkd-wait-online.service"
