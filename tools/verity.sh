#!/usr/bin/env bash
# Makes a disk image of a system extension with dm-verity and a signature: verity.sh EXTENSION ARCH OUT KEY CERTIFICATE,
# with ARCH as systemd names it, and key and certificate (X.509, RSA) in PEM. A host mounts it only with the certificate
# in /etc/verity.d, or in its kernel. The bytes depend only on the arguments, so the hashes are veritysetup's: those of
# systemd-repart 252 have a random salt.
set -euo pipefail
extension=$(realpath "$1") arch=$2 out=$3 key=$4 certificate=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

uuid() { # uuid HEX: prints the first 128 bits as a UUID
	sed -E 's/^(.{8})(.{4})(.{4})(.{4})(.{12}).*/\1-\2-\3-\4-\5/' <<<"$1"
}

# A salt is not a secret: it only has to differ from one extension to the next.
salt=$(sha256sum <"$extension" | cut -c-64)
veritysetup format --salt="$salt" --uuid="$(uuid "$salt")" --root-hash-file="$work/root-hash" \
	"$extension" "$work/hashes" >/dev/null
hash=$(<"$work/root-hash")

# RSA without signed attributes, as the kernel wants it, has no time and no random bytes.
printf %s "$hash" >"$work/root-hash"
openssl smime -sign -binary -noattr -md sha256 -in "$work/root-hash" -inkey "$key" -signer "$certificate" \
	-outform DER -out "$work/der"
fingerprint=$(openssl x509 -in "$certificate" -outform DER | sha256sum | cut -c-64)
printf '{"rootHash":"%s","certificateFingerprint":"%s","signature":"%s"}' \
	"$hash" "$fingerprint" "$(base64 -w0 "$work/der")" >"$work/signature"
truncate -s 16K "$work/signature" # systemd reads up to the first zero

# partition NAME TYPE FILE HEX LINE...: declares a partition with the bytes of a file, and with a UUID.
partition() {
	printf '[Partition]\nType=%s\nCopyBlocks=%s\nUUID=%s\nSizeMinBytes=4K\n' "$2" "$3" "$(uuid "$4")" >"$work/$1.conf"
	printf '%s\n' "${@:5}" >>"$work/$1.conf"
}
# systemd finds the partitions of a root hash by their UUIDs: the first is its first half, the second its second.
partition 10-root "root-$arch" "$extension" "$hash"
partition 20-verity "root-$arch-verity" "$work/hashes" "${hash:32}" "SizeMaxBytes=$(stat -c %s "$work/hashes")"
partition 30-signature "root-$arch-verity-sig" "$work/signature" "$(sha256sum <"$work/signature")" SizeMaxBytes=16K

rm -f "$out"
systemd-repart --definitions="$work" --empty=create --size=auto --dry-run=no --pretty=no --no-pager \
	--seed="${salt:0:32}" "$out" >/dev/null
