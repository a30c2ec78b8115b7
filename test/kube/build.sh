#!/usr/bin/env bash
# Builds the components of a cluster once: build.sh CACHE [MODULE]. MODULE is the folder with the go.mod that has them as
# tools (this one, or old/); they land in CACHE/VERSION/, with a stamp that says from which sums they were made, so that a
# second call costs nothing. Cold, on two free cores: 4-5 minutes and 3.3 GB of Go's build cache; 460 MB of programs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$(realpath -m "${1:?the folder that keeps what was built}")
cd "$here/${2:-.}"

# A node's files are the Debian of the machines that test/boot boots.
if [ -z "${2:-}" ] && [ "$(id -u)" = 0 ]; then
	"$here/../boot/image.sh" --base
	mkdir -p "$cache"
	ln -sfn "$(realpath "$here/../boot/.cache/debian")" "$cache/debian"
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
bin=$cache/$version
export CGO_ENABLED=0
mkdir -p "$bin"
# What is ours changes often and is cheap.
[ ! -d fakecri ] || go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$cache/helpers/" ./fakecri
# A runtime that runs containers, and a shell for these: Debian's, unpacked and not installed. Without apt its tests are
# skipped.
if [ -d fakecri ] && [ ! -e "$cache/containerd/usr/bin/busybox" ] && command -v apt-get >/dev/null; then
	debs=(containerd runc busybox-static)
	rm -rf "$cache/containerd" "$cache/containerd.part"
	mkdir -p "$cache/containerd.part/packages"
	chmod 777 "$cache/containerd.part/packages" # apt reads as a user of its own
	(cd "$cache/containerd.part/packages" && { apt-get download -qq "${debs[@]}" || { apt-get update -qq -o DPkg::Lock::Timeout=300 && apt-get download -qq "${debs[@]}"; }; })
	for package in "$cache"/containerd.part/packages/*.deb; do dpkg -x "$package" "$cache/containerd.part"; done
	[ -e "$cache/containerd.part/usr/bin/busybox" ] || mv "$cache/containerd.part/bin/busybox" "$cache/containerd.part/usr/bin/"
	mv "$cache/containerd.part" "$cache/containerd"
fi
stamp=$(cat go.mod go.sum "$here/build.sh" | sha256sum | cut -d' ' -f1)
[ "$(cat "$bin/.stamp" 2>/dev/null)" != "$stamp" ] || exit 0

# Without these ldflags kubeadm and the rest call themselves v0.0.0-master, and kubeadm refuses a cluster that is newer.
minor=${version#v1.} minor=${minor%%.*} flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
	flags+=" -X $package.gitCommit=0000000000000000000000000000000000000000 -X $package.buildDate=1970-01-01T00:00:00Z"
done
echo "building Kubernetes $version into $bin: minutes the first time"
rm -f "$bin/.stamp"
go build -p 2 -trimpath -buildvcs=false -ldflags "$flags" -o "$bin/" tool
[ ! -e "$bin/server" ] || mv "$bin/server" "$bin/etcd"
echo "$stamp" >"$bin/.stamp"
