// Package recipes runs the recipes of packaging/image with the tools that they are for: mkosi, cloud-init, Ignition,
// Ansible and others. Each makes a machine, which boots with a real systemd, containerd and kubelet, and has to join a
// real cluster. Failures are injected where a tool can leave a machine half provisioned.
//
// `make e2e-recipes` runs it, as root; without it all tests here are skipped. prepare.sh makes the image with mkosi.
// The tests have network and mount namespaces of their own, which end with them.
package recipes
