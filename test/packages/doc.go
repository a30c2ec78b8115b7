// Package packages tests the deb and the rpm of prelet: that linters find nothing, that two builds give the same bytes,
// and how installing, upgrading and removing them changes a node.
//
// `make e2e-packages` runs it, as root; without its roots, all tests here are skipped. Packages are installed in real
// roots of several suites of Debian, each an overlay in a mount namespace of its test, which ends with the test. No
// systemd is started: the root's systemctl writes its arguments to a file, and enables units only. The behaviour of a
// booted machine is tested by test/boot.
package packages
