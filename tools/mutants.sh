#!/usr/bin/env bash
# Runs tools/mutants with its arguments. A changed program may write or end anything, so as root it has processes of its
# own, and a disk on which only this repository, the caches of Go and temporary files can be written.
set -euo pipefail
cd "$(dirname "$0")/.."

# A loop without an end takes all memory: then the kernel ends it, and nothing else. A limit of the address space would
# also end what only reserves much of it.
echo 1000 >/proc/self/oom_score_adj

go build -o bin/mutants ./tools/mutants
if [ "$(id -u)" != 0 ]; then
	exec bin/mutants "$@"
fi

tmp=$(mktemp -d)
chmod 755 "$tmp" # detectors run as users of their own
trap 'rm -rf "$tmp"' EXIT
export TMPDIR=$tmp
# shellcheck disable=SC2016 # expanded inside
unshare --mount --pid --fork --mount-proc bash -c '
	for folder in "$PWD" "$TMPDIR" "$(go env GOCACHE)" /dev/shm; do
		mount --bind "$folder" "$folder"
	done
	mount -o remount,bind,ro /
	cd "$PWD" # on the mount that can be written
	exec bin/mutants "$@"
' mutants "$@"
