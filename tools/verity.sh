#!/usr/bin/env bash
# Makes a disk image of a system extension with dm-verity and a signature: verity.sh EXTENSION ARCH OUT KEY CERTIFICATE,
# with ARCH as systemd names it, and key and certificate (X.509, RSA) in PEM. A host mounts it only with the certificate in
# /etc/verity.d, or in its kernel. The bytes depend on the arguments, and on a salt: systemd-repart 252 takes any.
set -euo pipefail
extension=$(realpath "$1") arch=$2 out=$3 key=$4 certificate=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# partition NAME TYPE LINE...: declares a partition.
partition() {
	printf '[Partition]\nType=%s\nVerityMatchKey=prelet\n' "$2" >"$work/$1.conf"
	printf '%s\n' "${@:3}" >>"$work/$1.conf"
}
partition 10-root "root-$arch" Verity=data "CopyBlocks=$extension"
partition 20-verity "root-$arch-verity" Verity=hash Minimize=best
partition 30-signature "root-$arch-verity-sig" Verity=signature

rm -f "$out"
systemd-repart --definitions="$work" --empty=create --size=auto --dry-run=no --pretty=no --no-pager \
	--seed="$(sha256sum <"$extension" | cut -c-32)" --private-key="$key" --certificate="$certificate" "$out" >/dev/null
