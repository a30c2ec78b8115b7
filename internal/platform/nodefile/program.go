package nodefile

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// scriptHead is how much of a program the kernel reads to find out how to start it (BINPRM_BUF_SIZE).
const scriptHead = 256

// maxInterpreters is how many interpreters one program may need, as in the kernel (exec_binprm).
const maxInterpreters = 5

// WhyNotExecutable returns why root cannot start the program at a path, with the path; "" if nothing is known to
// prevent it. It looks at the file, at the mount below it and at the interpreters that its first line or its ELF header
// names, and starts nothing.
func (r Root) WhyNotExecutable(path string) string {
	needs := ""
	for range maxInterpreters {
		interpreter, why := r.inspectProgram(path)
		switch {
		case why != "":
			return path + needs + " " + why
		case interpreter == "":
			return ""
		}
		path, needs = interpreter, ", the interpreter of "+path+","
	}

	return path + needs + " needs too many interpreters"
}

// inspectProgram returns the interpreter that a program needs, "" for none, or why the program cannot be started.
func (r Root) inspectProgram(path string) (interpreter, why string) {
	look, err := r.Look(path, FollowAll)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "does not exist"
	case err != nil: // what cannot be looked at is not known to be broken
		return "", ""
	}
	defer look.Close()

	switch {
	case look.Stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return "", "is not a file"
	case look.Stat.Mode&0o111 == 0:
		return "", "is not executable: chmod 0755"
	case look.Stat.Size == 0:
		return "", "is empty"
	}

	file, err := look.Open()
	if err != nil {
		return "", ""
	}
	defer file.Close()

	var mount unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &mount) == nil && mount.Flags&unix.ST_NOEXEC != 0 && r == "" {
		return "", "is on a file system that is mounted with noexec"
	}

	head := make([]byte, scriptHead)
	n, _ := io.ReadFull(file, head)
	line, isScript := strings.CutPrefix(string(head[:n]), "#!")
	switch {
	case !isScript && !strings.HasPrefix(line, "\x7fELF"):
		return "", "is neither an ELF program nor a script with #!"
	case !isScript:
		return readLinker(file), ""
	}
	line, _, _ = strings.Cut(line, "\n")
	if words := strings.Fields(line); len(words) > 0 {
		return words[0], ""
	}

	return "", "has no interpreter after #!"
}

// readLinker returns the interpreter of an ELF program, the dynamic linker; "" for a static program, for a program that
// is not of 64 bits and little-endian, as those of nodes are, and if its header cannot be read. elf.NewFile would read
// all sections, and needs 90 kB of code that unpacks them.
func readLinker(file io.ReaderAt) string {
	var head elf.Header64
	read := func(at uint64, into any) bool {
		part := io.NewSectionReader(file, int64(at), int64(binary.Size(into)))

		return binary.Read(part, binary.LittleEndian, into) == nil
	}
	if !read(0, &head) || elf.Class(head.Ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return ""
	}

	for n := range uint64(head.Phnum) {
		var p elf.Prog64
		if !read(head.Phoff+n*uint64(head.Phentsize), &p) {
			return ""
		}
		if elf.ProgType(p.Type) == elf.PT_INTERP && p.Filesz < unix.PathMax {
			name := make([]byte, p.Filesz)
			_ = read(p.Off, name)

			return strings.TrimRight(string(name), "\x00")
		}
	}

	return ""
}
