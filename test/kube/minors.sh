#!/usr/bin/env bash
# Builds the kubelets of the newest minor versions in the tables: minors.sh CACHE [MINORS]. They land in
# CACHE/VERSION/kubelet, where build.sh has put that of the newest version. An existing one is not built again. Each
# takes 6 minutes on two free cores, and 85 MB; Go's build cache takes 0.5 GB for each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath -m "${1:?the folder that keeps what was built}")
minors=${2:-6}
tables=$here/../../internal/model/kubelet/known/tables.txt
modules=$(mktemp -d)
trap 'rm -rf "$modules"' EXIT

# published MODULE VERSION prints the version, or the newest earlier one if that of a pre-release cannot be downloaded.
published() {
	local query found
	for query in "$2" "<$2"; do
		found=$(cd / && go mod download -json "$1@$query") || continue
		sed -n 's/.*"Version": "\(.*\)",/\1/p' <<<"$found"
		return
	done
	echo "minors.sh: neither $1@$2 nor an earlier version can be downloaded" >&2
	return 1
}

# build VERSION: the module is built with its own go.mod, go.sum and Go version, as its release was. Its go.mod replaces
# Kubernetes' modules with folders of its repository, see modules.sh; those that no kubelet imports are not published.
build() {
	local version=$1 theirs part package flags="-s -w" minor args=()
	theirs=$(cd "$modules" && go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)",/\1/p')
	install -m 644 "$theirs"/go.{mod,sum} "$modules/"
	for part in $(sed -n 's,^\t\(k8s.io/[a-z-]*\) => ./staging/.*,\1,p' "$theirs/go.mod"); do
		case $part in
		k8s.io/sample-*) args+=(-dropreplace "$part" -droprequire "$part") ;;
		*) args+=(-replace "$part=$part@$(published "$part" "v0.${version#v1.}")") ;;
		esac
	done
	go mod edit "${args[@]}" "$modules/go.mod"

	minor=${version#v1.} minor=${minor%%.*}
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
		flags+=" -X $package.gitCommit=0000000000000000000000000000000000000000 -X $package.gitTreeState=clean"
		flags+=" -X $package.buildDate=1970-01-01T00:00:00Z"
	done
	echo "building the kubelet of Kubernetes $version: minutes the first time"
	mkdir -p "$cache/$version"
	# Without debug information an object takes half of the space.
	(cd "$theirs" && GOWORK=off CGO_ENABLED=0 go build -p 2 -mod=mod -modfile="$modules/go.mod" -trimpath \
		-buildvcs=false -gcflags=all=-dwarf=false -ldflags "$flags" -o "$cache/$version/kubelet" ./cmd/kubelet)
}

for version in $(sed -n 's/^# \(1\.[-0-9a-z. ]*\)\.$/\1/p' "$tables" | tr ' ' '\n' | tail -n "$minors"); do
	[ -e "$cache/v$version/kubelet" ] || build "v$version"
done
