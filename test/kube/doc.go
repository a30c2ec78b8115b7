// Package kube starts real Kubernetes for tests: etcd, kube-apiserver and kube-controller-manager as processes of this
// machine, and nodes (see node.sh) on which prelet and a real kubelet use the real paths. build.sh builds the programs,
// `make e2e-kube` runs the tests as root on Linux, and cmd/cluster starts a cluster and a node for interactive use. It
// must not write outside of its cache folder; control groups, mounts and processes of a killed run are removed by the
// next one (Sweep).
//
// A node's service manager is the systemd of this machine in a root of the node's own, without units but those of the
// test: it starts in milliseconds, and has the control groups that pods need, which the booted machines of test/boot do
// not have. Most tests are the scripts of testdata/nodes. The suite starts about 80 nodes.
package kube
