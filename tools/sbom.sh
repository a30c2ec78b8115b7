#!/usr/bin/env bash
# Writes the bill of materials of a program, CycloneDX in JSON: sbom.sh VERSION PROGRAM FILE. It is made of what Go's
# linker recorded in the program. Licences are in the file `copyright` of a package: cyclonedx-gomod would download the
# modules again for them. The bytes depend only on the program, the tools and the time of the commit. Needs jq.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 program=$2 file=$3
SOURCE_DATE_EPOCH=$(tools/source-date.sh)

GOOS='' GOARCH='' CGO_ENABLED=0 "${GO:-go}" build -trimpath -buildvcs=false -modfile=tools/sbom/go.mod \
	-o bin/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod

bin/cyclonedx-gomod bin -json -noserial -std "$program" |
	jq --arg version "$version" --arg time "$(date -u -d "@$SOURCE_DATE_EPOCH" +%FT%TZ)" \
		'.metadata.timestamp = $time | .metadata.component.version = $version' >"$file"
