#!/bin/sh
# Prints the version of this checkout as a semantic version.
#
# On a tag the version is the tag. Elsewhere it is the next version with a suffix after `+`, not after `-`:
# "0.3.0-5-gabc1234" is older than 0.3.0, so a site with `required_version = ">= 0.3"` would refuse it.
#
# `version.sh package VERSION` prints the same as the version of deb, rpm and system extension. For dpkg, rpm and
# systemd-sysupdate `~` sorts before the end of a version, so that the next version replaces a build on the way to it, and
# `+` and `-` do not.
set -u
next=0.3.0
GIT_CEILING_DIRECTORIES=$(cd "$(dirname "$0")/../.." && pwd -P) # not of a repository in which this tree is a folder
export GIT_CEILING_DIRECTORIES

[ "${1-}" != package ] || {
	printf '%s\n' "$2" | sed 's/[-+]/~/'
	exit 0
}

tag=$(git describe --tags --exact-match --match 'v[0-9]*' --dirty 2>/dev/null) && {
	printf '%s\n' "$tag" | sed -E 's/^v//; s/-dirty$/+dirty/'
	exit 0
}
commit=$(git describe --always --dirty --abbrev=10 2>/dev/null) || {
	printf '%s+unknown\n' "$next"
	exit 0
}
printf '%s+dev.g%s\n' "$next" "$(printf '%s' "$commit" | sed 's/-dirty$/.dirty/')"
