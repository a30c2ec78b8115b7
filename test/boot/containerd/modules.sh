#!/usr/bin/env bash
# Writes go.mod and go.sum of this folder, with containerd as a tool, and of a folder for each older version that
# TestRuntimeJudge asks. Run it after a change of the versions below; needs the network.
set -euo pipefail
cd "$(dirname "$0")"

version=v2.2.0
old=(v1.7.28 v2.1.4)

# module FOLDER TOOL...
module() (
	mkdir -p "$1"
	cd "$1"
	printf 'module github.com/prelet/prelet/test/boot/containerd%s\n\ngo 1.26.0\n' "${1#.}" >go.mod
	rm -f go.sum
	shift
	go get -tool "$@"
	go mod tidy
)

v2=github.com/containerd/containerd/v2/cmd
module . "$v2/containerd@$version" "$v2/containerd-shim-runc-v2@$version" "$v2/ctr@$version"
for v in "${old[@]}"; do
	folder=./${v#v}
	folder=${folder%.*}
	case $v in
	v1.*) module "$folder" "github.com/containerd/containerd/cmd/containerd@$v" ;;
	*) module "$folder" "$v2/containerd@$v" ;;
	esac
done
