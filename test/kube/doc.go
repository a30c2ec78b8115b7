// Package kube starts real Kubernetes for tests: etcd, kube-apiserver and kube-controller-manager as processes of this
// machine, and nodes (see pid1) on which prelet and a real kubelet use the real paths. build.sh builds the programs,
// `make e2e-kube` runs the tests as root on Linux, and cmd/cluster starts a cluster and a node for interactive use. It
// must not write outside of its cache folder; control groups, mounts and processes of a killed run are removed by the
// next one (Sweep).
//
// Nodes have a small service manager of their own, pid1, and no booted systemd, which test/boot has for its tests. A
// boot of that machine takes 2.8 to 3.6 s on two CPUs, and a whole join with pid1 2.6 to 3.3 s. The suite starts about
// 50 nodes.
package kube
