// Package kubelet reads and writes the kubelet's own formats: its flags in environment files, labels and taints, the
// KubeletConfiguration document, kubeconfigs and CPU lists, and the paths where distributions keep them. Stages that
// plan a node call it with texts and get texts or errors; the same arguments give the same bytes. It must not open a
// file, use the network or start a process.
package kubelet
