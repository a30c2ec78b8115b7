// Package activate makes the kubelet run on a committed generation, judges whether it does so in good health, and goes
// back when it does not. It is one table, entered by a run, by prelet-verify.service, by hand, and after a crash.
//
// It may touch the gate with three notes beside it in the run folder, and one note in the state folder. Everything else
// is handed in: systemd (Units), the generations (Store), what can be seen of a running kubelet (Probe), time (Clock).
// It reads no /proc and opens no connection.
//
// # How it works
//
//	locate   where the node is: its phase, and a few facts. Reads only
//	next     the row of the table for that and for what has just happened. Pure
//	do       the row's steps, one behind the other. The only place that acts
//
// and again, until a row ends it. Each step may be done twice, so a process that is killed anywhere leaves nothing to
// remember: the next one locates. The table is in table.go; docs/reference/activation.md is printed from it.
//
// # Rules
//
//   - The lock is held but for one step, watch: a kubelet's start waits for prelet.service, which waits for the
//     lock.
//   - Inside a unit that the kubelet is ordered after and that has a job (prelet.service at boot), its jobs are
//     asked for and never waited for. A stop may be waited for anywhere.
//   - A kubelet in auto-restart is restarted, because a start would wait for RestartSec=.
//   - A kubelet that nobody asked for (inactive, no job) is not started, unless we stopped it: a file in the run
//     folder says so, and so survives us.
//   - The gate is open only on a whole generation, and a kubelet that runs or is about to is stopped before a file
//     changes.
//   - The gate opens after systemd has read what changed of its unit files, also where a killed process changed them.
//   - A try is a boot that began to verify and did not come to an end. After three, back, before the kubelet starts.
//   - What was begun after the commit is not interrupted by SIGTERM; only waiting is.
package activate
