#!/usr/bin/env bash
# Fails if a generated file (mostly the reference pages) differs from the code, or if a link between pages is broken.
# Stale files are generated again in place: review and commit them. Links are checked by remark of npm, so that without
# Node.js they are not, except in CI.
set -euo pipefail
cd "$(dirname "$0")/.."

fingerprint() { # prints the hash of every file of the tree, in a fixed order
	find . \( -path ./.git -o -path ./bin -o -path ./dist -o -name .cache -o -name node_modules \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
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

pages() { # prints the names of all pages, each with a NUL behind it
	git ls-files -z --cached --others --exclude-standard '*.md' ':!:*testdata/*'
}
if pages | xargs -0 grep -nE '\]\(/'; then
	echo "links are relative to their page, so that they also work on the web site" >&2
	exit 1
fi
if [ -z "${CI:-}" ] && ! command -v npm >/dev/null; then
	echo "links between pages are not checked: apt-get install nodejs npm" >&2
	exit 0
fi
cd tools/links
if [ ! node_modules/.package-lock.json -nt package-lock.json ]; then
	npm ci --ignore-scripts --no-audit --no-fund
fi
cd ../..
pages | xargs -0 tools/links/node_modules/.bin/remark --no-stdout --frail --quiet --rc-path tools/links/remarkrc.json
