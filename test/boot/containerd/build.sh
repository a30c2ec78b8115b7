#!/usr/bin/env bash
# Builds containerd for TestContainerd and TestRuntimeJudge once: build.sh CACHE. CACHE/containerd gets the programs and
# the unit of the same version, and a folder for each older version. A stamp has the sums that each was made from, so
# that a second call costs nothing. Cold, on two free cores: 4 minutes and 1 GB of Go's build cache for each version.
set -euo pipefail
cache=$(realpath -m "${1:?the folder that keeps what was built}")/containerd
cd "$(dirname "$0")"

# build FOLDER TO
build() (
	local stamp module version to=$2
	stamp=$(cat "$1"/go.{mod,sum} build.sh | sha256sum | cut -d' ' -f1)
	[ "$(cat "$to/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

	cd "$1"
	module=$(grep -om1 'github.com/containerd/containerd.*/cmd/' go.mod)
	module=${module%/cmd/}
	version=$(go list -m -f '{{.Version}}' "$module")
	echo "building containerd $version into $to: minutes the first time"
	mkdir -p "$to"
	rm -f "$to/.stamp"
	# Without the snapshotters that need C libraries.
	CGO_ENABLED=0 go build -p 2 -trimpath -buildvcs=false -tags "no_btrfs no_devmapper no_zfs no_tracing" \
		-ldflags "-s -w -X $module/version.Version=$version" -o "$to/" tool
	install -m 644 "$(go list -m -f '{{.Dir}}' "$module")/containerd.service" "$to/"
	echo "$stamp" >"$to/.stamp"
)

build . "$cache"
for old in [0-9]*/; do
	build "$old" "$cache/${old%/}"
done
