#!/usr/bin/env bash
# Builds deb and rpm of prelet for the architecture of GOARCH, and of its documentation: package.sh VERSION [FOLDER], by
# default in dist/. BIN is the folder of the programs, as for install.sh. The bytes depend only on the commit: all times are $SOURCE_DATE_EPOCH,
# by default that of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # packages have the modes of files and folders
ARCH=$(go env GOARCH)
SOURCE_DATE_EPOCH=$(tools/source-date.sh)
MAINTAINER=$(cat packaging/maintainer)
export VERSION ARCH SOURCE_DATE_EPOCH MAINTAINER
dist=${2:-dist}

stage=bin/package
rm -rf "$stage"
VERSION=$1 tools/install.sh "$PWD/$stage" /usr >/dev/null
VERSION=$(tools/version.sh package "$1")

# Documents are apart, because rpm marks them: those of prelet, and those of prelet-doc.
mkdir "$stage/prelet" "$stage/prelet-doc"
mv "$stage/usr/share/doc" "$stage/usr/share/man" "$stage/prelet/"
doc=$stage/prelet/doc/prelet pages=$stage/prelet-doc/doc/prelet-doc
tools/install-doc.sh "$PWD/$pages" >/dev/null

# What Debian's policy wants: licences and a changelog at their places, compressed pages.
programs=(./cmd/prelet ./cmd/prelet-detect ./cmd/prelet-detector-check)
tools/licenses.sh copyright . "${programs[@]}" >"$doc/copyright"
declare -A licenses=([prelet]=$(tools/licenses.sh expression . "${programs[@]}") [prelet-doc]=Apache-2.0)
rm "$doc/LICENSE" # it is in copyright, by its name
cat >"$pages/copyright" <<-EOF
	Copyright $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y) the prelet authors.

	Licensed under the Apache License, Version 2.0. Its text is in /usr/share/common-licenses/Apache-2.0 on Debian, and
	at https://www.apache.org/licenses/LICENSE-2.0.
EOF
for package in prelet prelet-doc; do
	cat >"$stage/$package/doc/$package/changelog" <<-EOF
	$package ($VERSION) unstable; urgency=medium

	  * CHANGELOG.md of prelet-doc lists the changes of each version.

	 -- $MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
	EOF
done
find "$stage/prelet/man" "$doc/changelog" "$pages/changelog" -type f -exec gzip -9n {} +

mkdir -p "$dist"
GOARCH= go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

config() { # config PACKAGE PACKAGER: prints packaging/prelet/PACKAGE.yaml with what only this packager knows
	cat "packaging/prelet/$1.yaml"
	if [ "$2" = deb ]; then
		printf '  - {src: %s, dst: /usr/share, type: tree}\n' "$stage/$1"
		return
	fi

	(cd "$stage/$1" && find . -type f -printf '%P\n' | LC_ALL=C sort) | while IFS= read -r file; do
		printf '  - {src: "%s", dst: "/usr/share/%s", type: doc}\n' "$stage/$1/$file" "$file"
	done
	printf 'license: %s\n' "${licenses[$1]}"
}

for package in prelet prelet-doc; do
	for packager in deb rpm; do
		config "$package" "$packager" >"$stage/$packager.yaml"
		bin/nfpm package --config "$stage/$packager.yaml" --packager "$packager" --target "$dist/"
	done
done
rm -rf "$stage"
