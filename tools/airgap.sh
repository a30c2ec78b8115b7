#!/usr/bin/env bash
# Packs what crosses an air gap into one OCI layout: airgap.sh LAYOUT SITE RELEASE. The tag `site` is the site of a folder,
# with its signed list, as `prelet push` stores it; the tag `release` has the files of a folder, each as a layer with its
# name: packages, system extensions, of detectors too, and SHA256SUMS with its signatures, as tools/release.sh makes them.
# The same files have the same digests. Needs bin/prelet.
set -euo pipefail
[ $# = 3 ] || { echo "usage: airgap.sh LAYOUT SITE RELEASE" >&2; exit 64; }
layout=$(realpath -m "$1") site=$(realpath "$2") release=$(realpath "$3")
for file in site.sha256 site.sha256.sig; do
	[ -f "$site/$file" ] || {
		echo "airgap.sh: $site is not signed: it has no $file, and nodes with keys refuse it. Sign it: prelet site sign $site --key FILE" >&2
		exit 65
	}
done
cd "$(dirname "$0")/.."

GOOS='' GOARCH='' CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildvcs=false -modfile=tools/oras/go.mod \
	-o bin/oras oras.land/oras/cmd/oras
oras=$PWD/bin/oras

mkdir -p "$(dirname "$layout")"
bin/prelet push "$site" "oci-layout:$layout:site"
cd "$release"
"$oras" push --oci-layout "$layout:release" --artifact-type application/vnd.prelet.release.v1 \
	--annotation org.opencontainers.image.created=1970-01-01T00:00:00Z -- *
