// Package generation replaces a set of files on disk, all or none, across crashes.
//
// It is a redo journal. It knows nothing of what the files mean, of services, or of the language that described them; it
// may touch the targets that it is given, temporaries beside them, and its own folder (Options.Dir), and nothing else.
//
// # Protocol
//
//	Open      takes the lock
//	Recover   finishes or undoes what a crash left
//	Begin     compares (all equal: ErrNothing, and nothing was written), checks, then stages old and new contents, the
//	          manifest, and temporaries beside the targets; all of it is fsynced. The list of temporaries and new
//	          folders is durable before the first of them is made
//	Commit    writes the journal (phase publish). From here on there is only forward
//	          (the caller makes sure that nobody reads the targets)
//	Publish   renames each temporary over its target, in the order of the proposal, fsyncs the folders, records phase verify
//	          (the caller lets readers in, unlocks, watches, locks again, compares Journal.Same)
//	Good      or Rollback
//
// The lock is held for writing only. Whoever waits for something else calls Unlock, and after Relock compares the journal
// with what it judged: another process may have superseded it.
//
// # Folder
//
//	lock                       held with flock(2)
//	journal.json               the transaction that is in flight; without it nothing is
//	staging.json               temporaries and folders that a commit is about to make
//	held.json                  plans that are not to be tried again, and the pin
//	ballast                    space that going back may use when the disk is full
//	generations/N/manifest.json, status.json, plan.json, …, old/SHA256, new/SHA256
//
// Contents that an earlier generation already holds are hard links: each generation is complete by itself, and only bytes
// that are new have to reach the disk.
//
// # Promises
//
//	I1  after recovery every target is as before, or every target is as planned
//	I2  at every instant each single file is its own old or its own new one
//	I3  Publish without an error survives a power cut
//	I5  recovery is idempotent and survives being killed
//	I6  no temporaries are left behind
//	I7  foreign bytes and metadata are kept
//	I8  a failure before Commit leaves inode, times and bytes of every target as they were
//
// (I4 is the caller's: readers are kept out from before Publish until after it.)
package generation
