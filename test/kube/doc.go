// Package kube brings up real Kubernetes for tests: etcd, kube-apiserver and kube-controller-manager as processes of this machine,
// with what `kubeadm init` leaves in a cluster, and nodes for prelet and a real kubelet to work on.
//
// A node is a set of namespaces over this machine's root (see pid1): its own files, processes, network, control groups and
// kernel settings, and a small service manager in place of systemd. prelet and the kubelet find every path where it is on a real
// one, several nodes run side by side with the same ports, and when its first process is killed nothing of it is left. The cluster
// is reached through doors (Door) that a test opens at any address of the node's loopback, and may shut.
//
// Programs come from build.sh, which makes them of Go modules: nothing is downloaded but those. `make e2e-kube` runs the tests, as
// root on Linux; cmd/cluster starts a cluster and a node for people. Nothing is written outside of the cache folder, and the
// control groups, mounts and processes of a run that was killed are removed by the next (Sweep).
package kube
