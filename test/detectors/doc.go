// Package detectors runs detectors that crash, hang, flood, lie and break out under prelet's own unit, on a booted systemd with
// its hardening, as root, and looks that the boot ends in time, that nothing of them is left, and that the sandbox holds
// there too. `make e2e-hostile` builds what it needs; without that it skips.
package detectors
