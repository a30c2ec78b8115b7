// Package image boots the golden image of packaging/image in a virtual machine and joins it to a real cluster:
// firmware, boot loader, kernel, systemd, containerd, kubelet and prelet are those of the image, and nothing is
// replaced. The guest reaches the API server of the machine that runs the tests at 10.0.2.2, an address of QEMU's user
// network.
//
// `make e2e-image` builds the image and runs these tests, with ARCH=arm64 those of another architecture. QEMU emulates
// the processor if /dev/kvm cannot be used; a boot then takes about a minute.
package image
