package hostile

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Operations of FUSE and their answers, as far as it takes to open one file (linux/fuse.h, version 7.31).
const (
	fuseLookup, fuseForget, fuseGetattr, fuseOpen, fuseRead, fuseRelease = 1, 2, 3, 14, 15, 18
	fuseFlush, fuseInit, fuseOpendir, fuseInterrupt                      = 25, 26, 27, 36

	fuseDirectIO = 1
	fuseRoot     = 1 // the folder; the file is 2
)

// StuckFilesystem mounts a file system with one file, "file", of which no read ever ends, until this process does: who reads it is in the
// kernel's hands and cannot be killed, as with a driver whose device hangs.
func StuckFilesystem(at string) error {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())
	if err := unix.Mount("stuck", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return &fs.PathError{Op: "mount", Path: at, Err: err}
	}
	in := make([]byte, 1<<17)
	for {
		n, err := unix.Read(int(dev.Fd()), in)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if out := fuseAnswer(in[:n]); out != nil {
			if _, err := unix.Write(int(dev.Fd()), out); err != nil && err != unix.ENOENT { // who asked is gone
				return err
			}
		}
	}
}

// fuseAnswer is the answer to one request; nil is none.
func fuseAnswer(in []byte) []byte {
	o := binary.NativeEndian
	operation, unique, node := o.Uint32(in[4:]), in[8:16], o.Uint64(in[16:])
	var body []byte
	errno := int32(0)
	u32 := func(list ...uint32) {
		for _, v := range list {
			body = o.AppendUint32(body, v)
		}
	}
	attributes := func(node uint64) {
		mode := uint32(unix.S_IFDIR | 0o755)
		if node != fuseRoot {
			mode = unix.S_IFREG | 0o444
		}
		body = o.AppendUint64(o.AppendUint64(o.AppendUint64(body, node), 4096), 8)
		u32(0, 0, 0, 0, 0, 0, 0, 0, 0) // times
		u32(mode, 1, 0, 0, 0, 4096, 0)
	}
	switch operation {
	case fuseRead, fuseInterrupt, fuseForget:
		return nil
	case fuseInit:
		u32(7, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	case fuseLookup:
		if string(in[40:]) != "file\x00" {
			errno = -int32(unix.ENOENT)
			break
		}
		body = o.AppendUint64(body, 2)
		u32(0, 0, 60, 0, 60, 0, 0, 0) // generation, how long this holds
		attributes(2)
	case fuseGetattr:
		u32(60, 0, 0, 0)
		attributes(node)
	case fuseOpen, fuseOpendir:
		u32(1, 0, fuseDirectIO, 0)
	case fuseFlush, fuseRelease:
	default:
		errno = -int32(unix.ENOSYS)
	}
	out := o.AppendUint32(nil, uint32(16+len(body)))
	out = append(o.AppendUint32(out, uint32(errno)), unique...)
	return append(out, body...)
}
