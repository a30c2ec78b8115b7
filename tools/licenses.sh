#!/usr/bin/env bash
# Prints the licences of the libraries in programs: licenses.sh copyright|expression FOLDER PACKAGE..., where FOLDER is
# the module of the packages. `copyright` prints the libraries and each text once, `expression` prints one of SPDX.
# GOOS, GOARCH, CGO_ENABLED and GOFLAGS are those of the build. Fails if go-licenses does not know a licence. The modules
# must be in Go's cache, as they are after a build.
set -euo pipefail
cd "$(dirname "$0")/.."
form=$1 folder=$2
shift 2

GOOS='' GOARCH='' CGO_ENABLED=0 GOFLAGS='' "${GO:-go}" build -trimpath -buildvcs=false \
	-modfile=tools/licenses/go.mod -o bin/go-licenses github.com/google/go-licenses/v2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A line for each licence: library, version, licence, file. Without GOROOT a trimmed go-licenses takes all packages for
# the standard library; the proxy keeps it from searching web pages.
root=$("${GO:-go}" env GOROOT)
printf '{{range .}}{{.Name}}\t{{.Version}}\t{{.LicenseName}}\t{{.LicensePath}}\n{{end}}' >"$work/template"
top=$PWD
(cd "$folder" && GOROOT=$root HTTP_PROXY=127.0.0.1:0 HTTPS_PROXY=127.0.0.1:0 "$top/bin/go-licenses" report \
	--ignore github.com/prelet/prelet --template "$work/template" "$@") >"$work/found" 2>"$work/messages" || {
	cat "$work/messages" >&2
	exit 1
}
! grep Unknown "$work/found" >&2 || exit 1

{
	printf 'Go\t%s\tBSD-3-Clause\t%s\n' "$("${GO:-go}" env GOVERSION)" "$root/LICENSE"
	# go-licenses finds both licences of psx, which is under one of the two.
	awk -F '\t' -v OFS='\t' '/libcap\/psx\t/ { $3 = "(BSD-3-Clause OR GPL-2.0-only)" } NF' "$work/found"
} | LC_ALL=C sort -u >"$work/list"

if [ "$form" = expression ]; then
	{ echo Apache-2.0 && cut -f3 "$work/list"; } | LC_ALL=C sort -u | paste -sd '|' | sed 's/|/ AND /g'
	exit
fi

cat <<-EOF
	prelet is free software: Copyright The prelet authors, Apache-2.0. The licence is in
	/usr/share/common-licenses/Apache-2.0 or in the file LICENSE.

	Source: https://github.com/prelet/prelet

	The programs contain these libraries, unchanged. The source of each is the Go module of that name and version.

EOF
awk -F '\t' '$1 == last { printf " AND %s", $3; next } { printf "%s  %s %s: %s", end, $1, $2, $3; last = $1; end = "\n" }
	END { print "" }' "$work/list"

# Each text once, with its users: licences, and the notices and grants of patents next to them.
cut -f1,4 "$work/list" | LC_ALL=C sort -u | while IFS=$'\t' read -r library licence; do
	[ -f "$licence" ] || { echo "$library: no file $licence" >&2 && exit 1; }
	for file in "$licence" "${licence%/*}"/NOTICE* "${licence%/*}"/PATENTS*; do
		[ -f "$file" ] || continue
		text=$work/$(tr -d '\r' <"$file" | sha256sum | cut -d' ' -f1)
		[ -e "$text" ] || { tr -d '\r' <"$file" >"$text" && echo "$text" >>"$work/texts"; }
		echo "$library ${file##*/}" >>"$text.users"
	done
done
while read -r text; do
	printf '\n%s\n' "$(printf -- '-%.0s' {1..80})"
	cat "$text.users"
	echo
	cat "$text"
done <"$work/texts"
