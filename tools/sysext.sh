#!/usr/bin/env bash
# Makes a system extension: sysext.sh ROOT NAME ARCH OUT, with ARCH as systemd names it (x86-64, arm64). A host has it as
# /var/lib/extensions/NAME.raw. ROOT has what the package of prelet, or of a detector, installs, and is changed. The bytes
# depend only on ROOT and $SOURCE_DATE_EPOCH.
set -euo pipefail
root=$1 name=$2 arch=$3 out=$4

# An extension has /usr only. It has links instead of presets, because `systemctl preset` does not run when it is merged.
rm -rf "${root:?}/etc" "$root/usr/lib/systemd/system-preset"
units=$root/usr/lib/systemd/system release=$root/usr/lib/extension-release.d
if [ -e "$units/prelet.service" ]; then
	mkdir -p "$units/multi-user.target.wants" "$units/kubelet.service.wants"
	ln -s ../prelet.service "$units/multi-user.target.wants/"
	ln -s ../prelet-verify.service "$units/kubelet.service.wants/"
fi
mkdir -p "$release"
printf 'ID=_any\nARCHITECTURE=%s\nEXTENSION_RELOAD_MANAGER=1\n' "$arch" >"$release/extension-release.$name"

mksquashfs "$root" "$out" -quiet -no-progress -noappend -all-root -no-xattrs >/dev/null # its times are $SOURCE_DATE_EPOCH
