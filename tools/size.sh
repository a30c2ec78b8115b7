#!/usr/bin/env bash
# Fails when a stripped binary is larger than the bound, which is an alarm and not an aim.
# What enlarged it before: one call that runs text/template, after which the linker keeps every method (3 MB).
set -euo pipefail

binary=${1:?a binary}
bound=$((40 * 1000 * 1000))
bytes=$(stat -c %s "$binary")
awk -v n="$binary" -v b="$bytes" -v m="$bound" 'BEGIN { printf "%s: %.1f MB, at most %.1f\n", n, b / 1e6, m / 1e6 }'
[ "$bytes" -le "$bound" ] || {
	echo "$binary has outgrown its bound. What is in it: go version -m $binary; which import brought it: go mod why -m MODULE" >&2
	exit 1
}

# Names of functions stay in a stripped program. One that must be there shows that we would see one that must not.
grep -aq 'encoding/json.Marshal' "$binary" || { echo "$binary: no name of a function can be seen in it, so this check sees nothing" >&2; exit 1; }
! grep -aq 'text/template.(\*state).evalField' "$binary" || { echo "$binary: something runs a text/template, and the linker keeps every method for it" >&2; exit 1; }
