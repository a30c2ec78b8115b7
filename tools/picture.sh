#!/usr/bin/env bash
# Makes docs/images/report.png, the picture of README.md: the HTML report of README's site on a recorded GPU machine, with
# its label opened. Needs Chromium, and what `make build machines` builds.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

awk '/^```hcl$/ { inside = 1; next } /^```$/ && inside { exit } inside' "$repository/README.md" >site.hcl
cp -r "$repository/bin/machines/dgx-h100" machine
mkdir node
prelet=$repository/bin/prelet
"$prelet" record gpu07.prelet --config site.hcl --objects "$repository/examples/objects" --hardware machine --root node
"$prelet" report --html page.html --from gpu07.prelet
sed -i '0,/<details class="item">/s//<details class="item" open>/' page.html
chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" \
	--window-size=1000,1000 --screenshot="$work/report.png" "file://$work/page.html" 2>/dev/null
install -D -m 0644 report.png "$repository/docs/images/report.png"
