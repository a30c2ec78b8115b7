package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Requests of FUSE that are needed to open one file (linux/fuse.h, version 7.31).
const (
	fuseLookup    = 1
	fuseForget    = 2
	fuseGetattr   = 3
	fuseOpen      = 14
	fuseRead      = 15
	fuseRelease   = 18
	fuseFlush     = 25
	fuseInit      = 26
	fuseOpendir   = 27
	fuseInterrupt = 36

	fuseDirectIO = 1
	fuseRoot     = 1 // number of the folder
	fuseFile     = 2 // number of the file
)

// serveStuckFiles mounts a file system with one file, "file". Reading it blocks until this process ends: the reader
// is in the kernel and cannot be killed, as with a driver whose device hangs.
func serveStuckFiles(at string) error {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()

	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())
	err = unix.Mount("stuck", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options)
	if err != nil {
		return &fs.PathError{Op: "mount", Path: at, Err: err}
	}

	in := make([]byte, 1<<17)
	for {
		n, err := dev.Read(in)
		isGone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) // the caller does not wait any more
		if isGone {
			continue
		}
		if err != nil {
			return err
		}

		out := fuseReply(in[:n])
		if out == nil {
			continue
		}
		_, err = dev.Write(out)
		hasCaller := !errors.Is(err, unix.ENOENT)
		if err != nil && hasCaller {
			return err
		}
	}
}

// fuseReply returns the reply to a request, or nil for none.
func fuseReply(in []byte) []byte {
	order := binary.NativeEndian
	operation := order.Uint32(in[4:])
	unique := in[8:16]
	node := order.Uint64(in[16:])

	var body []byte
	var errno int32
	switch operation {
	case fuseRead, fuseInterrupt, fuseForget:
		return nil
	case fuseFlush, fuseRelease:
	case fuseInit:
		body = words(7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	case fuseLookup:
		if string(in[40:]) != "file\x00" {
			errno = -int32(unix.ENOENT)
			break
		}
		body = order.AppendUint64(nil, fuseFile)
		body = append(body, words(0, 0, 60, 0, 60, 0, 0, 0)...) // generation, validity in seconds
		body = append(body, fuseAttributes(fuseFile)...)
	case fuseGetattr:
		body = append(words(60, 0, 0, 0), fuseAttributes(node)...)
	case fuseOpen, fuseOpendir:
		body = words(1, 0, fuseDirectIO, 0)
	default:
		errno = -int32(unix.ENOSYS)
	}

	out := words(uint32(16+len(body)), uint32(errno))
	out = append(out, unique...)

	return append(out, body...)
}

// fuseAttributes returns struct fuse_attr of the folder or the file.
func fuseAttributes(node uint64) []byte {
	mode := uint32(unix.S_IFDIR | 0o755)
	if node != fuseRoot {
		mode = unix.S_IFREG | 0o444
	}

	order := binary.NativeEndian
	b := order.AppendUint64(nil, node)
	b = order.AppendUint64(b, 4096) // size
	b = order.AppendUint64(b, 8)    // blocks
	b = append(b, make([]byte, 9*4)...)

	return append(b, words(mode, 1, 0, 0, 0, 4096, 0)...)
}

// words encodes numbers of 32 bits.
func words(list ...uint32) []byte {
	var b []byte
	for _, v := range list {
		b = binary.NativeEndian.AppendUint32(b, v)
	}

	return b
}
