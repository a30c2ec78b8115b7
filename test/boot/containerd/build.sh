#!/usr/bin/env bash
# Builds containerd for TestContainerd once: build.sh CACHE. CACHE/containerd gets the programs, the unit of the same
# version, and a stamp of the sums that they were made from, so that a second call costs nothing. Cold, on two free cores:
# 4 minutes and 1 GB of Go's build cache; 80 MB of programs.
set -euo pipefail
cache=$(realpath -m "${1:?the folder that keeps what was built}")/containerd
cd "$(dirname "$0")"

stamp=$(cat go.mod go.sum build.sh | sha256sum | cut -d' ' -f1)
[ "$(cat "$cache/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

module=github.com/containerd/containerd/v2
version=$(go list -m -f '{{.Version}}' $module)
echo "building containerd $version into $cache: minutes the first time"
mkdir -p "$cache"
rm -f "$cache/.stamp"
# Without the snapshotters that need C libraries.
CGO_ENABLED=0 go build -p 2 -trimpath -buildvcs=false -tags "no_btrfs no_devmapper no_zfs no_tracing" \
	-ldflags "-s -w -X $module/version.Version=$version" -o "$cache/" tool
install -m 644 "$(go list -m -f '{{.Dir}}' $module)/containerd.service" "$cache/"
echo "$stamp" >"$cache/.stamp"
