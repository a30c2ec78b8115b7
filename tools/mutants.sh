#!/usr/bin/env bash
# Runs tools/mutants with its arguments. A changed program may write or end anything, so as root it has processes of its
# own, and a disk on which only this repository, the caches of Go and temporary files can be written.
set -euo pipefail
cd "$(dirname "$0")/.."

ulimit -v $((16 << 20)) # KiB: a loop without an end must not take all memory
go build -o bin/mutants ./tools/mutants
if [ "$(id -u)" != 0 ]; then
	exec bin/mutants "$@"
fi

tmp=$(mktemp -d)
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
