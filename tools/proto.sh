#!/usr/bin/env bash
# Generates and checks the code of the protocol between prelet and detectors. `proto.sh write` generates the Go code of
# detector.proto; `proto.sh check` fails if that code is stale, if detector.proto violates the style rules, or if it breaks
# compatibility: a detector that was built against v1.binpb, the first published protocol, must keep working. Both download
# only Go modules.
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
