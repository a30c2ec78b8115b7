// Package generation replaces a set of files on disk, all or none, across crashes and power cuts. The caller proposes
// targets, commits and publishes them with a [Store], and then records a verdict or rolls back. A [Target] is the path
// of a file or a folder and the state that it gets; the targets of a committed generation are its managed files. The
// package must not know the meaning of the files, and must not touch anything except the targets, temporaries next to
// them, and its own folder (StoreConfig.Dir). Each change of the disk goes through disk (disk.go). While it flushes
// files in parallel, it raises GOMAXPROCS of the process to their number.
//
// # Promises
//
//	I1  after recovery every target is as before, or every target is as planned
//	I2  at every instant each single file has its own old or its own new content
//	I3  Publish without an error survives a power cut
//	I5  recovery is idempotent and survives being killed
//	I6  no temporaries are left behind
//	I7  content and metadata that other programs wrote are kept
//	I8  a failure before Commit leaves inode, times and bytes of every target unchanged
//
// (I4 belongs to the caller: it excludes readers from before Publish until after it.)
package generation
