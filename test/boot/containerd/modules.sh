#!/usr/bin/env bash
# Writes go.mod and go.sum of this folder, with containerd as a tool. Run it after a change of the version below; needs the
# network.
set -euo pipefail
cd "$(dirname "$0")"

version=v2.2.0

printf 'module github.com/prelet/prelet/test/boot/containerd\n\ngo 1.26.0\n' >go.mod
rm -f go.sum
go get -tool "github.com/containerd/containerd/v2/cmd/containerd@$version" \
	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@$version" "github.com/containerd/containerd/v2/cmd/ctr@$version"
go mod tidy
