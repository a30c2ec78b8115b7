#!/usr/bin/env bash
# Fails if a generated file (mostly the reference pages) differs from the code, or if a link between pages is broken.
# Stale files are generated again in place: review and commit them.
set -euo pipefail
cd "$(dirname "$0")/.."

fingerprint() { # prints the hash of every file of the tree, in a fixed order
	find . \( -path ./.git -o -path ./bin -o -path ./dist -o -name .cache \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}

before=$(fingerprint)
make generate
after=$(fingerprint)
stale=$(comm -13 <(sort <<<"$before") <(sort <<<"$after") | cut -c67-)
if [ -n "$stale" ]; then
	printf 'stale files, generated again now; review and commit them:\n%s\n' "$stale" >&2
	exit 1
fi
if grep -rnE '@@[A-Z]+@@' README.md CHANGELOG.md docs; then
	echo "a page contains a placeholder @@NAME@@ that was not replaced" >&2
	exit 1
fi
go run ./tools/links
