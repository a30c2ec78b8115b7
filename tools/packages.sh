#!/usr/bin/env bash
# Builds deb and rpm of each detector of this repository, with its lock: packages.sh VERSION [FOLDER], by default in dist/.
# `make packages` runs it after it has built bin/detectors. The program itself prints its lock, so the lock is made here
# and for the architecture of GOARCH, whose programs must run here. The bytes depend only on the commit and the C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # packages have the modes of files
VERSION=$(tools/version.sh package "$1") ARCH=$(go env GOARCH)
SOURCE_DATE_EPOCH=$(tools/source-date.sh)
MAINTAINER=$(cat packaging/maintainer)
export VERSION ARCH SOURCE_DATE_EPOCH MAINTAINER
dist=${2:-dist}

! bin/detectors/nvidia describe | grep 'built without NVML' >/dev/null || {
	echo "bin/detectors/nvidia was built without NVML: apt-get install gcc libc6-dev, make detectors" >&2
	exit 1
}
mkdir -p bin/detectors.lock.d "$dist"
GOARCH= CGO_ENABLED=0 go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
rm -f "$dist"/prelet-detector-*

stage=bin/detectors.stage
rm -rf "$stage"
trap 'rm -rf "$stage"' EXIT

licenses() { # licenses FORM NAME: prints the licences of a detector, with those of NVML
	CGO_ENABLED=1 GOFLAGS=-tags=nvml tools/licenses.sh "$1" plugins "./cmd/$2"
}

config() { # config NAME PACKAGER: prints the configuration of a package with the files that are made here
	local package=prelet-detector-$1 doc=$stage/$1 kind=file
	[ "$2" = deb ] || kind=doc # rpm marks documents
	awk -v package="$package" -v doc="$doc" -v kind="$kind" '
		function put(source, target) {
			print "  - {src: " doc "/" source ", dst: " target ", type: " (source == "overrides" ? "file" : kind) \
				", file_info: {mode: 0644}}"
		}
		{ print }
		/^contents:/ {
			put("copyright", "/usr/share/doc/" package "/copyright")
			put("changelog.gz", "/usr/share/doc/" package "/changelog.gz")
			if (kind == "file")
				put("overrides", "/usr/share/lintian/overrides/" package)
		}' "packaging/detectors/$1.yaml"
	if [ "$2" != deb ]; then
		printf 'license: '
		licenses expression "$1"
	fi
}

for config in packaging/detectors/*.yaml; do
	name=$(basename "$config" .yaml)
	bin/detectors/"$name" describe -o lock >bin/detectors.lock.d/"$name".json

	mkdir -p "$stage/$name"
	licenses copyright "$name" >"$stage/$name/copyright"
	gzip -9n >"$stage/$name/changelog.gz" <<-EOF
	prelet-detector-$name ($VERSION) unstable; urgency=medium

	  * CHANGELOG.md of prelet-doc lists the changes of each version.

	 -- $MAINTAINER  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
	EOF
	overrides=packaging/detectors/$name/lintian-overrides
	[ -e "$overrides" ] || overrides=packaging/detectors/lintian-overrides
	sed "s/NAME/$name/g" "$overrides" >"$stage/$name/overrides"
	find "$stage/$name" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +

	for packager in deb rpm; do
		config "$name" "$packager" >"$stage/$packager.yaml"
		bin/nfpm package --config "$stage/$packager.yaml" --packager "$packager" --target "$dist/" >/dev/null
	done
done
ls -1 "$dist"/prelet-detector-*
