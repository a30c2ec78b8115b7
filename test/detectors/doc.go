// Package detectors runs hostile detectors (crashing, hanging, flooding, lying, escaping) under prelet's hardened
// unit on a booted systemd, as root. The boot must end in time, no process or folder may be left, and the sandbox
// must work there too. `make e2e-hostile` builds the image; without it the tests are skipped.
package detectors
