// Package boot boots real machines to test prelet's units: Debian's systemd as PID 1 in a container, kubeadm's
// kubelet.service, a substitute for the kubelet, and an API server that the test can stop.
//
// `make e2e-boot` runs it, as root on Linux; without its image, all tests here are skipped. A machine is a tmpfs over
// the image, removed when its test ends. Its network is a loopback interface. Nothing outside .cache, the machine's
// cgroup and its network namespace is written, and no systemd is ever started on the root of the machine that runs
// the tests: its tmpfiles would empty /tmp.
//
// Several machines run in parallel, because tests mostly wait. Tests that measure seconds run alone before the
// others: they do not call t.Parallel. All others wait for events, with limits far above the expected time.
package boot
