#!/usr/bin/env bash
# Builds deb and rpm of prelet in dist/ from bin/, for the architecture of GOARCH: package.sh VERSION. The bytes depend
# only on the commit: all times are $SOURCE_DATE_EPOCH, by default that of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=$1 ARCH=$(go env GOARCH)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION ARCH SOURCE_DATE_EPOCH

stage=bin/package
doc=$stage/usr/share/doc/prelet
rm -rf "$stage"
tools/install.sh "$PWD/$stage" /usr >/dev/null

# What Debian's policy wants: licences and a changelog at their places, compressed pages.
(cd tools/release && go build -o ../../bin/release .)
bin/release copyright bin/prelet bin/prelet-detect bin/prelet-detector-check >"$doc/copyright"
rm "$doc/LICENSE" # it is in copyright, by its name
install -D -m 0644 LICENSE "$stage/usr/share/licenses/prelet/LICENSE"
mv "$doc/CHANGELOG.md" "$doc/NEWS"
cat >"$doc/changelog" <<EOF
prelet ($VERSION) unstable; urgency=medium

  * NEWS.gz lists the changes of each version.

 -- prelet <maintainers@prelet.invalid>  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
find "$stage/usr/share/man" "$doc/changelog" "$doc/NEWS" -type f -exec gzip -9n {} +

mkdir -p dist
go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
for packager in deb rpm; do
	config=packaging/prelet/prelet.yaml
	if [ "$packager" = deb ]; then # dpkg does not know the field License
		grep -v '^license:' "$config" >bin/prelet.deb.yaml
		config=bin/prelet.deb.yaml
	fi
	rm -f dist/prelet[_-]"$VERSION"*."$packager"
	bin/nfpm package --config "$config" --packager "$packager" --target dist/ >/dev/null
done
ls -1 dist/prelet[_-][0-9]*
