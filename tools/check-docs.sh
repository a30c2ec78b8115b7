#!/usr/bin/env bash
# Fails when the reference pages differ from what the code says, or when a link between pages leads nowhere.
# The pages are generated again in place: after a failure they are fresh, and only need to be committed.
set -euo pipefail
cd "$(dirname "$0")/.."

before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
[ ! -d docs/reference ] || cp -r docs/reference "$before/reference"
mkdir -p "$before/reference"

make generate

if [ -d docs/reference ] && ! diff -ru "$before/reference" docs/reference; then
	echo "docs/reference was stale. It has been generated again: look at it and commit it." >&2
	exit 1
fi
go run ./tools/links
