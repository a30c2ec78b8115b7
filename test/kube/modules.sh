#!/usr/bin/env bash
# Writes go.mod and go.sum of this folder and of old/. They contain all components of a cluster as tools of a Go module, so that
# no binary is downloaded and all sources have checksums. Run it after a change of the versions below; needs the network.
set -euo pipefail
cd "$(dirname "$0")"

# modules.sh [new|old]; without an argument it writes both.

# The only place with versions: Kubernetes, and the etcd that its release was tested with.
kubernetes=v1.37.1 etcd=v3.7.0
# The older minor version, for API server and kubelet only; etcd, kubeadm and the controllers are of the newer version.
old_kubernetes=v1.33.13

# module FOLDER PATH KUBERNETES ETCD COMMAND...; an empty ETCD leaves etcd out
module() {
	local folder=$1 path=$2 version=$3 etcd=$4
	shift 4
	mkdir -p "$folder"
	(
		cd "$folder"
		# The module is written in place, because its packages are in the folder. After a failure it is as it was before.
		local before is_written=
		before=$(mktemp -d)
		cp go.mod go.sum "$before/" 2>/dev/null || true
		trap '[ -n "$is_written" ] || { rm -f go.mod go.sum; cp "$before"/go.* . 2>/dev/null; } || true; rm -r "$before"' EXIT
		printf 'module %s\n\ngo 1.26.0\n\ngodebug default=go1.26\n' "$path" >go.mod
		rm -f go.sum
		# Kubernetes' own go.mod replaces its modules with folders of its repository (./staging/src/…); they are published with
		# the same version, but with major version 0.
		local theirs part args=()
		theirs=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
		for part in $(sed -n 's,^\t\(k8s.io/[a-z-]*\) => ./staging/.*,\1,p' "$theirs"); do
			args+=(-replace "$part=$part@v0.${version#v1.}")
		done
		for command in "$@"; do args+=(-tool "k8s.io/kubernetes/cmd/$command"); done
		[ -z "$etcd" ] || args+=(-tool go.etcd.io/etcd/server/v3 -require "go.etcd.io/etcd/server/v3@$etcd")
		go mod edit "${args[@]}" -require "k8s.io/kubernetes@$version"
		go mod tidy
		is_written=1
	)
}

which=${1:-both}
[ "$which" = old ] || module . github.com/prelet/prelet/test/kube "$kubernetes" "$etcd" kube-apiserver kube-controller-manager kubelet kubeadm kubectl kube-scheduler
[ "$which" = new ] || module old github.com/prelet/prelet/test/kube/old "$old_kubernetes" "" kube-apiserver kubelet
