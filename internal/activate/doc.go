// Package activate makes the kubelet run on a committed generation, judges whether it does so in good health, and goes back
// when it does not. It is one state machine, entered by a run, by prelet-verify.service, by hand, and after a crash.
//
// It may touch the gate with three notes beside it in the run folder, and one note in the state folder. Everything else is handed in: systemd (Units), the
// generations (Store), what can be seen of a running kubelet (Probe), time (Clock). It reads no /proc and opens no connection.
//
// # States
//
//	        run, something to change                 run, nothing to change     prelet-verify: a start or a crash of the kubelet
//	                  │ Apply                                │ Resume                    │ Verify
//	                  ▼                                      │                           │
//	PREFLIGHT  unit masked, missing, without the gate: 52    │   journal publish or rollback: Recover, as below
//	                  ▼                                      │                           │
//	COMMIT     the journal; from here on only forward        │                           │
//	SHUT       the gate: no kubelet can start                │                           │
//	STOP       the kubelet, if it runs or is about to        │                           │
//	PUBLISH    every file; the journal says VERIFY           │                           │
//	RELOAD     if a unit file changed                        │                           │
//	                  ▼                                      ▼                           ▼
//	OPEN       the gate, on a whole generation ◀────────── shut? ──── lost in this boot, and every file whole?
//	                  ▼
//	START      inside prelet.service: ask, never wait ──▶ pending; prelet-verify goes on from here
//	           else unlock, restart, wait
//	                  ▼
//	WATCH      without the lock ──▶ good │ bad │ unknown
//	                  ▼
//	LOCK       the journal is another one now: begin with what it says
//	  good     the journal is closed
//	  unknown  the journal stays and no try is counted; the next start of the kubelet, run or boot judges
//	  bad      nothing good to go back to, or rollback = false: the generation stays, not held (50)
//	           else SHUT, STOP, ROLLBACK, OPEN, START, WATCH:
//	             healthy      the plan is held (50)
//	             ill as well  the plan was not at fault: not held (51)
//
// # Rules
//
//   - The lock is never held while waiting for a kubelet to start: its start waits for prelet.service, which waits for the lock.
//   - Inside a unit that the kubelet is ordered after and that has a job (prelet.service at boot), its jobs are asked for and
//     never waited for. A stop may be waited for anywhere.
//   - A kubelet in auto-restart is restarted, because a start would wait for RestartSec=.
//   - A kubelet that nobody asked for (inactive, no job) is not started, unless we stopped it: a file in the run folder says
//     so, and so survives us.
//   - The gate is open only on a whole generation, and a kubelet that runs or is about to is stopped before a file changes.
//   - A try is a boot that began to verify and did not come to an end. After three, back, before the kubelet starts.
//   - What was begun after COMMIT is not interrupted by SIGTERM; only waiting is.
package activate
