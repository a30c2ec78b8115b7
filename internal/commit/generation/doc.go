// Package generation replaces a set of files on disk, all or none, across crashes.
//
// It is a redo journal. It knows nothing of what the files mean, of services, or of the language that described them; it
// may touch the targets that it is given, temporaries beside them, and its own folder (Options.Dir), and nothing else.
//
// # Protocol
//
//	Open      takes the lock
//	Recover   finishes or undoes what a crash left
//	Begin     compares (all equal: ErrNothing, and nothing was written), checks, then stages: first the generation, with
//	          old and new contents, durable because it tells what is made next; then new folders and temporaries beside
//	          the targets, their bytes fsynced
//	Commit    writes the journal (phase publish). From here on there is only forward
//	          (the caller makes sure that nobody reads the targets)
//	Publish   renames each temporary over its target, in the order of the proposal, fsyncs the folders, records phase verify
//	          (the caller lets readers in, unlocks, watches, locks again, compares Journal.Same)
//	Good      or Rollback
//
// Where nobody is going to judge (Proposal.Unjudged) Publish ends the journal, and the generation is good.
//
// Adopt stands in for Begin, Commit and Publish where every target is as proposed and no generation records it.
//
// The lock is held for writing only. Whoever waits for something else calls Unlock, and after Relock compares the journal
// with what it judged: another process may have superseded it.
//
// On a read-only file system the store opens, under the lock, and refuses whatever would write: see Store.ReadOnly.
//
// # Folder
//
//	lock                        held with flock(2); its size is space that going back may use when the disk is full
//	journal.json                the transaction that is in flight; without it nothing is
//	held.json                   plans that are not to be tried again, and the pin
//	generations/N               one generation, complete by itself: the manifest on the first line, then every content and
//	                            every blob, one behind the other. It never changes
//	generations/N.staged        the same before the commit: it names the temporaries and folders that are to be removed if
//	                            that never comes
//	generations/N.status.json   what became of it
//
// The manifest and the JSON files are documents, each sealed with the SHA-256 of itself (see document.go).
//
// A commit of four files fsyncs the generation, the four temporaries and the journal, and the folder of each: the fewest files
// that can be told apart after a power cut, because on a disk each of them costs more than all that prelet computes for it.
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
