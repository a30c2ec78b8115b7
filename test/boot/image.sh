#!/usr/bin/env bash
# Builds the image that the machines of these tests boot: image.sh [--base|--check] [CACHE], as root.
#   CACHE/debian   Debian 12 with systemd, or the suite that CACHE is named after, such as .cache/trixie: made once
#                  (1-2 minutes, 216 MB); remove it for a new one
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
suite=bookworm
case $(basename "$cache") in bullseye | trixie | forky | sid) suite=$(basename "$cache") ;; esac
[ "$(id -u)" = 0 ] || { echo "machines are booted by root only" >&2; exit 1; }

debian() { ../debian.sh "$suite" "$cache/debian" systemd,systemd-sysv,dbus,libpam-systemd,iproute2,procps,strace; }

openvswitch() {
	local part=$cache/openvswitch.part
	rm -rf "$part"
	mkdir -p "$part/upper" "$part/work" "$part/root"
	mount -t overlay overlay -o "lowerdir=$cache/debian,upperdir=$part/upper,workdir=$part/work" "$part/root"
	trap 'umount "$cache/openvswitch.part/root"' EXIT
	cp /etc/resolv.conf "$part/root/etc/resolv.conf"
	printf '#!/bin/sh\nexit 101\n' >"$part/root/usr/sbin/policy-rc.d" # services must not start here
	chmod 755 "$part/root/usr/sbin/policy-rc.d"
	DEBIAN_FRONTEND=noninteractive chroot "$part/root" sh -ec 'apt-get -qq update
		apt-get -qq -y --no-install-recommends install openvswitch-switch
		apt-get clean' >"$part/log" 2>&1 || { cat "$part/log" >&2 && exit 1; }
	rm -r "$part/root/etc/resolv.conf" "$part/root/usr/sbin/policy-rc.d" "$part"/root/var/lib/apt/lists/*
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
	ln -s /dev/null "$2/etc/systemd/system/systemd-modules-load.service" # the modules would be this kernel's
}
built() { make -C ../.. install "DESTDIR=$1" PREFIX=/usr; }
as_built() { ../../tools/install.sh "$1" /usr; } # does not build: other processes may use the programs

recipe() { # NAME: prints the functions that make NAME and the parts below it
	{
		echo "$suite"
		declare -f debian
		cat ../debian.sh
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

if ! command -v systemd-nspawn >/dev/null; then
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd-container iproute2
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
