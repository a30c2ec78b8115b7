// Package activate starts the kubelet on a committed generation, judges whether it is healthy, and rolls back when it
// is not. The package is one table of steps. A run, prelet-verify.service, a rollback by hand and the start after a
// crash all enter this table.
//
// The package writes the gate and three notes next to it in the run folder, and one note in the state folder.
// Everything else is passed in: systemd (Units), the generations (Store), checks of a running kubelet (Probe) and time
// (Clock). The package does not read /proc and opens no connection.
//
// # How it works
//
//	locate   reads where the node is: its phase and a few facts
//	next     returns the row of the table for the location and the trigger. Pure
//	do       runs the row's steps in order. Only do changes anything
//
// Only KeepShut acts outside of the table: it writes the reason of a shut gate when the journal cannot be read, and
// without the journal there is no phase.
//
// These three repeat until a row ends the walk. Each step may run twice. A killed process therefore has to remember
// nothing: the next process locates again. The table is in table.go; docs/reference/activation.md is generated from it.
//
// # Rules
//
//   - The lock is held during every step but watch: a start of the kubelet waits for prelet.service, which waits for
//     the lock.
//   - Inside a unit that the kubelet is ordered after and that has a job (prelet.service at boot), a start is requested
//     and never waited for. A stop may be waited for anywhere.
//   - A kubelet in auto-restart is restarted, because a start would wait for RestartSec=.
//   - A kubelet whose start was not requested (inactive, no job) is not started, unless prelet stopped it. A file in
//     the run folder records that, so it survives the process.
//   - The gate is open only on a complete generation. A kubelet that runs or is about to run is stopped before a file
//     changes.
//   - The gate opens after systemd has read its changed unit files, also when a killed process changed them.
//   - A try is a boot that began to verify and did not finish. After three tries prelet rolls back before the kubelet
//     starts.
//   - SIGTERM does not interrupt the steps after the commit; it only ends waits.
package activate
