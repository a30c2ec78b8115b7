#!/bin/sh
# Prints the time of the files of a release: $SOURCE_DATE_EPOCH, or the time of the commit, in seconds since 1970.
set -eu
[ -z "${SOURCE_DATE_EPOCH:-}" ] || {
	echo "$SOURCE_DATE_EPOCH"
	exit 0
}
GIT_CEILING_DIRECTORIES=$(cd "$(dirname "$0")/../.." && pwd -P) # not of a repository in which this tree is a folder
export GIT_CEILING_DIRECTORIES
git log -1 --format=%ct 2>/dev/null || {
	echo "no commit, so the time of the files is not known. Set SOURCE_DATE_EPOCH, for example to that of the archive" >&2
	exit 1
}
