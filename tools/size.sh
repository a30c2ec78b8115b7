#!/usr/bin/env bash
# Fails if the stripped program is larger than 30.9 MB.
set -euo pipefail

binary=${1:?a binary}
bound=$((30900 * 1000))
bytes=$(stat -c %s "$binary")

awk -v n="$binary" -v b="$bytes" -v m="$bound" 'BEGIN { printf "%s: %.1f MB, at most %.1f\n", n, b / 1e6, m / 1e6 }'
[ "$bytes" -le "$bound" ] || {
	echo "$binary is too large. What is in it: go version -m $binary; which import brought it: go mod why -m MODULE" >&2
	exit 1
}
