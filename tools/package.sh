#!/usr/bin/env bash
# Builds deb and rpm of prelet for the architecture of GOARCH: package.sh VERSION [FOLDER], by default in dist/. BIN is
# the folder of the programs, as for install.sh. The bytes depend only on the commit: all times are $SOURCE_DATE_EPOCH,
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

# Documents are apart, because rpm marks them.
mkdir "$stage/documents"
mv "$stage/usr/share/doc" "$stage/usr/share/man" "$stage/documents/"
doc=$stage/documents/doc/prelet

# What Debian's policy wants: licences and a changelog at their places, compressed pages.
programs=(./cmd/prelet ./cmd/prelet-detect ./cmd/prelet-detector-check)
tools/licenses.sh copyright . "${programs[@]}" >"$doc/copyright"
license=$(tools/licenses.sh expression . "${programs[@]}")
rm "$doc/LICENSE" # it is in copyright, by its name
mv "$doc/CHANGELOG.md" "$doc/NEWS"
cat >"$doc/changelog" <<EOF
prelet ($VERSION) unstable; urgency=medium

  * NEWS.gz lists the changes of each version.

 -- $MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
find "$stage/documents/man" "$doc/changelog" "$doc/NEWS" -type f -exec gzip -9n {} +

mkdir -p "$dist"
GOARCH= go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

config() { # config PACKAGER: prints packaging/prelet/prelet.yaml with what only this packager knows
	cat packaging/prelet/prelet.yaml
	if [ "$1" = deb ]; then
		printf '  - {src: %s, dst: /usr/share, type: tree}\n' "$stage/documents"
		return
	fi

	(cd "$stage/documents" && find . -type f -printf '%P\n' | LC_ALL=C sort) | while IFS= read -r file; do
		printf '  - {src: "%s", dst: "/usr/share/%s", type: doc}\n' "$stage/documents/$file" "$file"
	done
	printf 'license: %s\n' "$license"
}

for packager in deb rpm; do
	config "$packager" >"bin/package/$packager.yaml"
	bin/nfpm package --config "bin/package/$packager.yaml" --packager "$packager" --target "$dist/"
done
rm -rf "$stage"
