#!/usr/bin/env bash
# Prints the table of the lines that peers.sh wrote: page.sh LINES. With "docs" behind it, writes the table into
# bench/README.md, the picture of growth, and the lines as the samples of that page.
set -euo pipefail
lines=$(realpath "${1:?the lines of peers.sh}")
cd "$(dirname "$0")/.."

table=$(jq -rs -f bench/peers.jq "$lines")
if [ "${2:-}" != docs ]; then
	echo "$table"
	exit
fi

begin='<!-- made by make bench-peers, do not edit -->' end='<!-- end of that part -->' page=bench/README.md
[ "$(grep -cxF -e "$begin" -e "$end" "$page")" = 2 ] || { echo "$page does not contain the lines $begin and $end" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
	sed "/^$begin\$/q" "$page"
	printf '\n%s\n\n' "$table"
	sed -n "/^$end\$/,\$p" "$page"
} >"$work/page"
jq -rs --arg data growth -f bench/peers.jq "$lines" >"$work/growth"
gnuplot -e "data='$work/growth'" bench/growth.gp >"$work/growth.svg"

cat "$work/page" >"$page"
cat "$work/growth.svg" >bench/growth.svg
[ "$lines" -ef bench/testdata/peers.jsonl ] || cp "$lines" bench/testdata/peers.jsonl
