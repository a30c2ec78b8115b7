#!/usr/bin/env bash
# Runs the fuzz targets of the module in the current folder: `fuzz.sh seeds`, or `fuzz.sh 30s` for each target.
# The targets are found in the source, so a new target needs no change here. All of them run, also if one fails.
set -euo pipefail
export PRELET_SWEEP=full # all seeds, also those of which `make test` takes a sample

what=${1:?seeds, or a time for each target such as 30s}
targets=$(go list -f '{{$p := .ImportPath}}{{$d := .Dir}}{{range .TestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p}} {{$d}}/{{.}}{{"\n"}}{{end}}' ./... |
	while read -r package file; do
		[ -z "$package" ] || sed -nE "s|^func (Fuzz[A-Za-z0-9_]+)\(.*|$package \1|p" "$file"
	done)
[ -n "$targets" ] || {
	echo "no fuzz targets in $(go list -m)"
	exit 0
}

if [ "$what" = seeds ]; then
	cut -d' ' -f1 <<<"$targets" | sort -u | xargs go test -count=1 -run '^Fuzz'
else
	# By default go minimizes each new input for up to a minute, in which nothing else is tried: on large inputs that
	# is the whole time.
	failed=0
	said=$(mktemp)
	trap 'rm -f "$said"' EXIT
	try() { go test -run '^$' -fuzz "^$2\$" -fuzztime "$what" -fuzzminimizetime 10x "$1" 2>&1 | tee "$said"; }
	# Now and then Go ends a target that has found nothing so, where a worker is late at the end of the time.
	late() { grep -qx ' *context deadline exceeded' "$said" && ! grep -q 'Failing input' "$said"; }
	while read -r package target; do
		echo "== $package $target"
		try "$package" "$target" || { late && try "$package" "$target"; } || failed=1
	done <<<"$targets"
	[ "$failed" = 0 ] || exit 1
fi
wc -l <<<"$targets" | sed 's/$/ fuzz targets/'
