#!/usr/bin/env bash
# Builds deb and rpm of each detector of this repository, with its lock: packages.sh VERSION [FOLDER], by default in dist/.
# `make packages` runs it after it has built bin/detectors. The program itself prints its lock, so the lock is made here
# and for this architecture. The bytes depend only on the commit and the C compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # packages have the modes of files
VERSION=$1 ARCH=$(go env GOARCH)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export VERSION ARCH SOURCE_DATE_EPOCH
dist=${2:-dist}

! bin/detectors/nvidia describe | grep 'This build has no NVML' >/dev/null || {
	echo "bin/detectors/nvidia was built without NVML: apt-get install gcc libc6-dev, make detectors" >&2
	exit 1
}
mkdir -p bin/detectors.lock.d "$dist"
go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
rm -f "$dist"/prelet-detector-*
for config in packaging/detectors/*.yaml; do
	name=$(basename "$config" .yaml)
	bin/detectors/"$name" describe -o lock >bin/detectors.lock.d/"$name".json
	for packager in deb rpm; do
		bin/nfpm package --config "$config" --packager "$packager" --target "$dist/" >/dev/null
	done
done
ls -1 "$dist"/prelet-detector-*
