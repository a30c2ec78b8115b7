// Package machine reads a node and changes it: all that a boot needs besides the plan.
//
// The package itself opens a node: its site, the source of its answers (open.go), and the machine that a command
// changes (host.go). Below it, run is a run from the lock to its publications; commit turns a plan into a generation;
// generation replaces all files or none; activation starts the kubelet and judges it; probe and detector answer
// questions; report publishes how it ended.
//
// The wing imports plan and the wings below. It never imports lab, and prints only on the console: progress goes
// through Env or a callback, and a result is a value or an error that contains a *fault.Fault. Only commit and the
// packages that it calls change managed files.
//
// Start with run/run.go, then commit/apply.go and activation/table.go.
package machine
