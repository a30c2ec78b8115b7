#!/usr/bin/env bash
# Fails when something that is made from code differs from what the code says (the reference pages above all), or when a
# link between pages leads nowhere. What is stale is generated again in place: it only needs to be looked at and committed.
set -euo pipefail
cd "$(dirname "$0")/.."

fingerprint() { # of every file of the tree, in a fixed order
	find . \( -path ./.git -o -path ./bin -o -path ./dist -o -name .cache \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
}

before=$(fingerprint)
make generate
after=$(fingerprint)
stale=$(comm -13 <(sort <<<"$before") <(sort <<<"$after") | cut -c67-)
if [ -n "$stale" ]; then
	printf 'stale, and generated again just now; look at them and commit them:\n%s\n' "$stale" >&2
	exit 1
fi
if grep -rnE '@@[A-Z]+@@' README.md CHANGELOG.md docs; then
	echo "a page has a place where something was to be put in" >&2
	exit 1
fi
go run ./tools/links
