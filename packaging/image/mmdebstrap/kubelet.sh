#!/usr/bin/env bash
# Collects a kubelet for an image from Kubernetes' Debian packages:
#
#   kubelet.sh FOLDER DEB...
#
# The packages are kubelet, kubeadm (for 10-kubeadm.conf) and kubernetes-cni, as `apt-get download` gets them from the
# repository that https://kubernetes.io/docs/tasks/tools/install-kubectl-linux/ names. Nothing is installed here.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 64; }
folder=$1
shift
mkdir -p "$folder"
for deb in "$@"; do
	dpkg-deb -x "$deb" "$folder"
done
rm -rf "$folder"/usr/share/doc "$folder"/usr/bin/kubeadm

find "$folder" -path '*/usr/bin/kubelet' -perm -0100 | grep -q . ||
	{ echo "no /usr/bin/kubelet in $*: add the package kubelet" >&2; exit 1; }
find "$folder" -path '*/systemd/system/kubelet.service' | grep -q . ||
	{ echo "no kubelet.service in $*: add the package kubelet" >&2; exit 1; }
find "$folder" -path '*/kubelet.service.d/10-kubeadm.conf' | grep -q . ||
	{ echo "no 10-kubeadm.conf in $*: add the package kubeadm" >&2; exit 1; }
