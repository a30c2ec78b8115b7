#!/usr/bin/env bash
# Generates and checks the code of the protocol between prelet and detectors, and of the part of the CRI that prelet reads.
# `proto.sh write` generates the Go code of both .proto files; `proto.sh check` fails if that code is stale, if
# detector.proto violates the style rules, or if it breaks compatibility: a detector that was built against v1.binpb, the
# first published protocol, must keep working. Both download only Go modules.
set -euo pipefail
cd "$(dirname "$0")/.."
buf() { go tool -modfile="$OLDPWD/tools/buf/go.mod" buf "$@"; }

# in_each COMMAND runs it in each folder of .proto files.
in_each() {
	for folder in plugins/proto internal/machine/probe/cri/wire; do
		cd "$folder"
		"$@"
		cd "$OLDPWD"
	done
}

# stale fails if the generated code of this folder is not what buf generates.
stale() {
	rm -rf "$fresh"
	buf generate -o "$fresh"
	for made in $(cd "$fresh" && find . -name '*.go'); do
		cmp "$fresh/$made" "$made" || {
			echo "stale; run make proto" >&2
			exit 1
		}
	done
}

case ${1:-} in
write)
	in_each buf generate
	;;
check)
	cd plugins/proto
	buf lint
	buf breaking --against v1.binpb
	cd "$OLDPWD"
	fresh=$(mktemp -d)
	trap 'rm -rf "$fresh"' EXIT
	in_each stale
	;;
*)
	echo "usage: proto.sh write | check" >&2
	exit 64
	;;
esac
