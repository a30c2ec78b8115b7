#!/usr/bin/env bash
# Builds all files of a release: release.sh VERSION [FOLDER], by default in dist/release/. The bytes depend only on the
# commit, the tools and, for detectors, the C compiler. Installs missing Debian packages as root, if apt-get is available.
#
# Private keys sign it, each if its variable names a file, and each signature must be of the public key in KEYS, by default
# packaging/keys, if that has one; its README lists them:
#   RELEASE_KEY_FILE      of SSH: SHA256SUMS.sig
#   RELEASE_GPG_FILE      of GnuPG: SHA256SUMS.gpg
#   RELEASE_VERITY_FILE   of X.509: the system extensions with dm-verity, of prelet and of detectors; needs the certificate
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
version=$1
packaged=$(tools/version.sh package "$version") # of what is sorted by its name
host=$(go env GOHOSTARCH)
SOURCE_DATE_EPOCH=$(tools/source-date.sh)
export SOURCE_DATE_EPOCH

missing=()
command -v mksquashfs >/dev/null || missing+=(squashfs-tools)
command -v jq >/dev/null || missing+=(jq)
command -v dpkg-deb >/dev/null || missing+=(dpkg)
# The detector nvidia without NVML would know less, so that is not released.
echo '#include <dlfcn.h>' | $(go env CC) -E - >/dev/null 2>&1 || missing+=(gcc libc6-dev)
[ -z "${RELEASE_KEY_FILE:-}" ] || command -v ssh-keygen >/dev/null || missing+=(openssh-client)
[ -z "${RELEASE_GPG_FILE:-}" ] || command -v gpgv >/dev/null || missing+=(gpg gpgv)
if [ -n "${RELEASE_VERITY_FILE:-}" ]; then
	export PATH=$PATH:/usr/sbin # of veritysetup
	command -v systemd-repart >/dev/null || missing+=(systemd-repart)
	command -v veritysetup >/dev/null || missing+=(cryptsetup-bin)
	command -v openssl >/dev/null || missing+=(openssl)
fi
if [ ${#missing[@]} -gt 0 ]; then
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || {
		echo "missing: apt-get install ${missing[*]}" >&2
		exit 1
	}
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

keys=${KEYS:-packaging/keys}
dist=${2:-dist/release}
rm -rf "$dist"
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make detectors VERSION="$version"

archive() { # archive ROOT: prints a tar archive, whose bytes depend only on what it contains
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu -C "$1" -c .
}

# make_root ROOT: what `make install` puts into a system, with presets, licences and the folders of sites.
make_root() {
	VERSION=$version tools/install.sh "$1" /usr >/dev/null
	mkdir -p "$1/etc/prelet" "$1/usr/lib/prelet/site"
	install -D -m 0644 packaging/prelet/90-prelet.preset "$1/usr/lib/systemd/system-preset/90-prelet.preset"
	tools/licenses.sh copyright . ./cmd/prelet ./cmd/prelet-detect ./cmd/prelet-detector-check \
		>"$1/usr/share/doc/prelet/copyright"
	rm "$1/usr/share/doc/prelet/LICENSE" # it is in copyright
}

# make_image_root ROOT: the programs, and the users of detectors, for a container.
make_image_root() {
	mkdir -p "$1/etc" "$1/tmp" "$1/workspace"
	chmod 1777 "$1/tmp"
	install -D -m 0755 "$BIN/prelet" "$1/usr/bin/prelet"
	install -D -m 0755 -t "$1/usr/lib/prelet" "$BIN/prelet-detect" "$BIN/prelet-detector-check"
	install -D -m 0644 "$work/$arch/usr/share/doc/prelet/copyright" "$1/usr/share/doc/prelet/copyright"
	awk 'BEGIN { id = 900; print "root:x:0:0:root:/:/sbin/nologin"; print "nobody:x:65534:65534:nobody:/:/sbin/nologin" }
		$1 == "u" { printf "%s:x:%d:%d:prelet detector:/:/sbin/nologin\n", $2, id, id; id++ }' \
		packaging/systemd/sysusers.d/prelet.conf >"$1/etc/passwd"
	awk -F: '{ printf "%s:x:%s:\n", $1, $4 }' "$1/etc/passwd" >"$1/etc/group"
}

# make_extension ROOT NAME ARCH OUT: the system extension OUT.raw and, with a key, OUT.verity.raw.
make_extension() {
	tools/sysext.sh "$1" "$2" "$3" "$4.raw"
	[ -z "${RELEASE_VERITY_FILE:-}" ] ||
		tools/verity.sh "$4.raw" "$3" "$4.verity.raw" "$RELEASE_VERITY_FILE" "$keys/prelet-verity.crt"
}

declare -A systemd_arch=([amd64]=x86-64 [arm64]=arm64)
roots=()
for arch in amd64 arm64; do
	export GOARCH=$arch BIN=$PWD/bin/release-$arch
	make build BIN="$BIN" VERSION="$version"
	CGO_ENABLED=0 tools/package.sh "$version" "$dist"
	for program in "$BIN"/*; do
		tools/sbom.sh "$version" "$program" "$dist/${program##*/}-$version-$arch.cdx.json"
	done

	make_root "$work/$arch"
	archive "$work/$arch" | gzip -n9 >"$dist/prelet-$version-linux-$arch.tar.gz"

	make_image_root "$work/image-$arch"
	archive "$work/image-$arch" >"$work/$arch.tar"
	roots+=("$arch=$work/$arch.tar")

	make_extension "$work/$arch" prelet "${systemd_arch[$arch]}" "$dist/prelet-$packaged-${systemd_arch[$arch]}"
done
unset GOARCH BIN

tools/ociimage.sh "$work/oci" "$version" "${roots[@]}"
archive "$work/oci" >"$dist/prelet-$version.oci.tar"

# A detector's extension has what its package has: the program, its lock, drop-ins. It is not named prelet-…, which the
# pattern of prelet's own extension matches, with a part of the name as version.
tools/packages.sh "$version" "$dist" >/dev/null
for deb in "$dist"/prelet-detector-*.deb; do
	name=${deb##*/} name=${name%%_*}
	dpkg-deb -x "$deb" "$work/$name"
	make_extension "$work/$name" "$name" "${systemd_arch[$host]}" "$dist/${name#prelet-}-$packaged-${systemd_arch[$host]}"
done
for program in bin/detectors/*; do
	tools/sbom.sh "$version" "$program" "$dist/detector-${program##*/}-$version-$host.cdx.json"
done
packaging/krew/build.sh "v$version" "$dist"

(cd "$dist" && sha256sum -- * >SHA256SUMS)
if [ -n "${RELEASE_KEY_FILE:-}" ]; then
	ssh-keygen -q -Y sign -f "$RELEASE_KEY_FILE" -n file "$dist/SHA256SUMS"
	[ ! -e "$keys/allowed_signers" ] ||
		ssh-keygen -q -Y verify -f "$keys/allowed_signers" -I prelet -n file -s "$dist/SHA256SUMS.sig" <"$dist/SHA256SUMS"
fi
if [ -n "${RELEASE_GPG_FILE:-}" ]; then
	(umask 077 && mkdir "$work/gpg")
	gpg --homedir "$work/gpg" --batch --quiet --import "$RELEASE_GPG_FILE"
	gpg --homedir "$work/gpg" --batch --detach-sign --output "$dist/SHA256SUMS.gpg" "$dist/SHA256SUMS"
	gpgconf --homedir "$work/gpg" --kill all
	[ ! -e "$keys/prelet.gpg" ] || gpgv --quiet --keyring "$(realpath "$keys/prelet.gpg")" "$dist/SHA256SUMS.gpg" "$dist/SHA256SUMS"
fi
for name in RELEASE_KEY_FILE RELEASE_GPG_FILE RELEASE_VERITY_FILE; do
	[ -n "${!name:-}" ] || echo "not signed with $name, which is not set" >&2
done
ls -1 "$dist"
