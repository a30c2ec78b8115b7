// Package kubelet knows the kubelet's own formats: its flags as systemd hands them over, labels and taints,
// the KubeletConfiguration document, kubeconfigs, CPU lists, and where the distributions keep all of these.
//
// It is pure: text in, text or errors out. It opens no file, asks no network and starts no process, so that
// stages that plan a node may import it. Whatever it prints is a function of its arguments, byte for byte.
package kubelet
