// Package activation starts the kubelet on a committed generation, judges whether it is healthy, and rolls back when
// it is not. A run, prelet-verify.service, a rollback by hand and the start after a crash all enter one table of
// steps: locate reads the phase and the facts of the node, next returns the row of the table, and do runs its steps,
// until a row ends the walk. The package must not read /proc or open a connection: units, generations, checks of the
// kubelet and time are passed in.
//
// A process may be killed at any time, and the next one locates again, so each step may run twice, and only do and
// KeepShut change anything. The package writes only the gate and the notes next to it in the run folder; the store
// writes the state folder.
package activation
