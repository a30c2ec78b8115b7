#!/bin/sh
# Makes a site of the configuration that Cluster API's bootstrap provider wrote for `kubeadm join`: server, pins, name,
# taints and arguments of the kubelet. The token becomes a credential, and is gone at the next boot.
set -eu
join=/run/kubeadm/kubeadm-join-config.yaml
new=/run/kubeadm/site

rm -rf "$new"
prelet import "$join" --out "$new"
install -D -m 644 "$new/site.hcl" /etc/prelet/50-cluster-api.hcl

umask 077
mkdir -p /run/credstore
sed -n 's/^ *token: *//p' "$join" >/run/credstore/bootstrap-token
