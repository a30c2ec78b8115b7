#!/bin/sh
# Prints the version of this checkout as a semantic version.
#
# On a tag the version is the tag. After a tag, and before the first tag, the suffix is added with `+` and not with `-`:
# "0.1.0-5-gabc1234" is older than 0.1.0, so a site with `required_version = ">= 0.1"` would refuse it.
set -u
next=0.2.0

described=$(git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null) && {
	printf '%s\n' "$described" | sed -E 's/^v//; s/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/(\+.*)-dirty$/\1.dirty/; s/-dirty$/+dirty/'
	exit 0
}
commit=$(git describe --always --dirty --abbrev=10 2>/dev/null) || {
	printf '%s+unknown\n' "$next"
	exit 0
}
printf '%s+dev.g%s\n' "$next" "$(printf '%s' "$commit" | sed 's/-dirty$/.dirty/')"
