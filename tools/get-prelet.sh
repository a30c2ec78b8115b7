#!/usr/bin/env bash
# Gets the program prelet for a check of sites, as the action and the hooks of this repository do.
#
#   get-prelet.sh release FOLDER [VERSION]   the released program, by default of the version of this source; 3: there is none
#   get-prelet.sh build FOLDER               a build of this source, which needs Go
#
# A released program has the checksum of its release. If this source has packaging/keys/allowed_signers, the checksums
# are signed by a key of it. RELEASES is another place of releases, as a URL.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$2
mkdir -p "$folder"

build() {
	local version
	version=$(cd "$source" && tools/version.sh)
	CGO_ENABLED=0 go -C "$source" build -trimpath -buildvcs=false -tags grpcnotrace \
		-ldflags "-s -w -X main.version=$version" -o "$folder/prelet" ./cmd/prelet
}

# own_version prints the version of this source. That of a release requires its own module plugins; main replaces it.
own_version() {
	grep -q '^replace github.com/prelet/prelet/plugins ' "$source/go.mod" ||
		sed -n 's|^\tgithub.com/prelet/prelet/plugins v||p' "$source/go.mod"
}

# absent MESSAGE: ends because there is no such program: an error only for a version that the user has named.
absent() {
	echo "get-prelet.sh: $1" >&2
	[ -z "$named" ] || exit 1
	exit 3
}

release() {
	local named=${1:-} version arch name url
	version=${named:-$(own_version)}
	version=${version#v}
	[ -n "$version" ] || absent "this is not the source of a release"

	case $(uname -sm) in
	"Linux x86_64") arch=amd64 ;;
	"Linux aarch64") arch=arm64 ;;
	*) absent "releases have no program for $(uname -sm)" ;;
	esac
	name=prelet-$version-linux-$arch.tar.gz
	url=${RELEASES:-https://github.com/prelet/prelet/releases/download}/v$version

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	local file files=("$name" SHA256SUMS)
	[ ! -e "$source/packaging/keys/allowed_signers" ] || files+=(SHA256SUMS.sig)
	for file in "${files[@]}"; do
		curl -fsSL --retry 3 -o "$work/$file" "$url/$file" || absent "cannot get $url/$file"
	done

	[ ${#files[@]} = 2 ] || ssh-keygen -q -Y verify -f "$source/packaging/keys/allowed_signers" -I prelet -n file \
		-s "$work/SHA256SUMS.sig" <"$work/SHA256SUMS"
	(cd "$work" && grep -F "  $name" SHA256SUMS | sha256sum --check --strict --quiet -)
	tar -xzf "$work/$name" -C "$work" ./usr/bin/prelet
	mv "$work/usr/bin/prelet" "$folder/prelet"
}

case $1 in
release) release "${3:-}" ;;
build) build ;;
*)
	sed -n '4,5s/^#  *//p' "$0" >&2
	exit 64
	;;
esac
