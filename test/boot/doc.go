// Package boot starts real machines and looks at what prelet's units do there: Debian's systemd as PID 1 in a container,
// kubeadm's kubelet.service, a stand-in for the kubelet, and an API server that the test can take away.
//
// `make e2e-boot` runs it, as root on Linux; without the image that it makes, every test here is skipped. A machine is a
// tmpfs over the image, gone when its test ends. Its network is one loopback of its own. Nothing outside .cache, the
// machine's cgroup and its network namespace is written, and no systemd is ever started on the root of the machine that
// runs the tests: its tmpfiles would empty /tmp.
//
// Several machines run at a time, because most of a test is waiting. The tests that hold prelet to a few seconds run alone, first:
// they do not call t.Parallel. In the others no time that passes may decide: what must happen before something else is waited for, and
// a limit is many times what is needed.
package boot
