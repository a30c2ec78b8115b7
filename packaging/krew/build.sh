#!/bin/bash
# Builds the archives of kubectl-prelet for each system, a bill of materials of each (needs jq), and the manifest for
# krew, with the checksums of the archives.
# usage: packaging/krew/build.sh VERSION FOLDER, for example v0.1.0 bin/krew
# KREW_PLATFORMS selects systems, for example linux/amd64.
set -euo pipefail

version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/../.."
platforms=${KREW_PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}

SOURCE_DATE_EPOCH=$(tools/source-date.sh)
export SOURCE_DATE_EPOCH

manifest=$out/prelet.yaml
sed "/^#/d; s|{{ .TagName }}|$version|; /^  platforms:/q" .krew.yaml >"$manifest"

for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  program=kubectl-prelet
  [ "$os" != windows ] || program=kubectl-prelet.exe
  archive=kubectl-prelet-$os-$arch.tar.gz

  work=$(mktemp -d)
  CGO_ENABLED=0 GOOS=$os GOARCH=$arch "${GO:-go}" build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.version=$version" -o "$work/$program" ./cmd/kubectl-prelet
  tools/sbom.sh "$version" "$work/$program" "$out/kubectl-prelet-$os-$arch.cdx.json"
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 tools/licenses.sh copyright . ./cmd/kubectl-prelet >"$work/copyright"
  cp LICENSE "$work/"
  [ "$os" = windows ] || install -m 0755 packaging/krew/kubectl_complete-prelet "$work/"
  # The same sources give the same archive.
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work" -c . | gzip -n >"$out/$archive"
  rm -r "$work"

  cat >>"$manifest" <<END
  - selector:
      matchLabels:
        os: $os
        arch: $arch
    uri: https://github.com/prelet/prelet/releases/download/$version/$archive
    sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
    bin: $program
END
done
