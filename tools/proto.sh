#!/usr/bin/env bash
# The protocol between prelet and detectors. `proto.sh write` makes the Go code of detector.proto again; `proto.sh check`
# fails when that code is stale, when the file breaks the rules of style, or when it breaks what was promised: a detector
# that was built against v1.binpb, the protocol as it was first published, works for ever. Nothing is fetched but modules.
set -euo pipefail
cd "$(dirname "$0")/../plugins/proto"
buf() { go tool -modfile=../../tools/buf/go.mod buf "$@"; }

case ${1:-} in
write)
	buf generate
	;;
check)
	buf lint
	buf breaking --against v1.binpb
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	buf generate -o "$fresh"
	for made in "$fresh"/detector/v1/*.go; do
		cmp "$made" "detector/v1/$(basename "$made")" || {
			echo "stale; run make proto" >&2
			exit 1
		}
	done
	;;
*)
	echo "usage: proto.sh write | check" >&2
	exit 64
	;;
esac
