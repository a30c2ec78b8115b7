#!/usr/bin/env bash
# Builds deb and rpm of each detector of this repository, with its lock, in dist/: packages.sh VERSION. `make packages` runs it
# after it has built bin/detectors. The program itself prints its lock, so the lock is made here and for this architecture.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=$1 ARCH=$(go env GOARCH)
export VERSION ARCH

! bin/detectors/nvidia describe | grep 'This build has no NVML' >/dev/null || {
	echo "bin/detectors/nvidia was built without NVML: apt-get install gcc libc6-dev, make detectors" >&2
	exit 1
}
mkdir -p bin/detectors.lock.d dist
go build -modfile=tools/nfpm/go.mod -o bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
rm -f dist/prelet-detector-*
for config in packaging/detectors/*.yaml; do
	name=$(basename "$config" .yaml)
	bin/detectors/"$name" describe -o lock >bin/detectors.lock.d/"$name".json
	for packager in deb rpm; do
		bin/nfpm package --config "$config" --packager "$packager" --target dist/ >/dev/null
	done
done
ls -1 dist/prelet-detector-*
