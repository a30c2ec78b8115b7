#!/usr/bin/env bash
# Makes a root of Debian: debian.sh SUITE DIRECTORY PACKAGE,... as root (1-2 minutes, 200 MB). Fails, and names the
# suite, if neither the mirror nor Debian's archive has it. Installs mmdebstrap if apt-get is available.
# Then DIRECTORY.json is a result for `make matrix`.
#   PRELET_DEBIAN_MIRROR   a mirror instead of deb.debian.org
set -euo pipefail
suite=$1 directory=$2 packages=$3

command -v mmdebstrap >/dev/null || {
	DEBIAN_FRONTEND=noninteractive apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap
}

rm -rf "$directory.part" "$directory.tar"
trap 'rm -rf "$directory.part" "$directory.tar"' EXIT
# Signatures are checked. An old date is not refused: a mirror of sid is late, and what has ended is signed no more.
bootstrap() { # [MIRROR...]
	mmdebstrap --variant=minbase --mode=root --aptopt='Acquire::Check-Valid-Until "false"' --include="$packages" \
		"$suite" "$directory.tar" "$@"
}
bootstrap ${PRELET_DEBIAN_MIRROR:+"$PRELET_DEBIAN_MIRROR"} || {
	echo "debian.sh: no $suite by its mirror; trying archive.debian.org" >&2
	bootstrap http://archive.debian.org/debian
} || {
	why="mmdebstrap failed, by its mirror and by archive.debian.org"
	echo "debian.sh: Debian $suite cannot be had: $why" >&2
	printf '{"debian":"%s","architecture":"%s","date":"%s","missing":"%s"}\n' \
		"$suite" "$(dpkg --print-architecture)" "$(date -u +%F)" "$why" >"$directory.json"
	exit 1
}
rm -f "$directory.json"

mkdir "$directory.part"
tar -C "$directory.part" -xp --numeric-owner -f "$directory.tar"
rm -rf "$directory"
mv "$directory.part" "$directory"
