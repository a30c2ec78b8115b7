package faults

import "testing"

// TestSweepXFS and TestSweepBtrfs sweep on file systems that keep their own order: xfs forgets the size of a file that was
// not fsynced, btrfs writes a tree for each fsync. btrfs has no ioctl to cut the power: there, the disk is copied.
func TestSweepXFS(t *testing.T) { sweepOn(t, filesystems[1], 2, 10) }

func TestSweepBtrfs(t *testing.T) { sweepOn(t, filesystems[2], 2, 10) }
