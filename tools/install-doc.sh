#!/usr/bin/env bash
# Installs the pages for users: install-doc.sh FOLDER. Their paths are those of the repository, so that links work.
# docs/develop is for people who change prelet, who have the repository.
set -euo pipefail
cd "$(dirname "$0")/.."

{
	printf '%s\n' README.md CHANGELOG.md SECURITY.md
	find docs -path docs/develop -prune -o -type f -print
} | LC_ALL=C sort | while IFS= read -r page; do
	install -D -m 0644 "$page" "$1/$page"
	echo "$1/$page"
done
