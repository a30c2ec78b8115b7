package nodefile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/internal/testing/table"
)

// TestWhyNotExecutable makes programs that the kernel starts, or does not, and compares the reason.
func TestWhyNotExecutable(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, file := range table.YAML[map[string]struct {
		Text string
		Mode os.FileMode
	}](t, `
/bin/elf: {text: "\x7fELF\x02", mode: 0o755}
/bin/sh: {text: "\x7fELF\x02", mode: 0o755}
/bin/empty: {mode: 0o755}
/bin/closed: {text: "\x7fELF\x02", mode: 0o644}
/bin/text: {text: "echo hello\n", mode: 0o755}
/bin/script: {text: "#! /bin/sh -e\necho hello\n", mode: 0o755}
/bin/bare: {text: "#!\n", mode: 0o755}
/bin/no-shell: {text: "#!/bin/bash\n", mode: 0o755}
/bin/shut-shell: {text: "#!/bin/closed -e\n", mode: 0o755}
/bin/runs-script: {text: "#!/bin/script\n", mode: 0o755}
/bin/itself: {text: "#!/bin/itself\n", mode: 0o755}
`) {
		osfile.Write(t, filepath.Join(root, path), file.Text, file.Mode)
	}
	for name, to := range map[string]string{"link": "/bin/elf", "broken-link": "/bin/gone"} {
		must(t, os.Symlink(to, filepath.Join(root, "bin", name)))
	}

	osfile.Write(t, filepath.Join(root, "bin/linked"), linkedProgram("/lib64/no-ld.so"), 0o600)
	must(t, os.Chmod(filepath.Join(root, "bin/linked"), 0o755))

	for path, want := range table.YAML[map[string]string](t, `
/bin/linked: /lib64/no-ld.so, the interpreter of /bin/linked, does not exist
/bin/elf: ''
/bin/script: ''
/bin/link: ''
/bin/runs-script: ''
/bin: /bin is not a file
/bin/gone: /bin/gone does not exist
/bin/broken-link: /bin/broken-link does not exist
/bin/empty: /bin/empty is empty
/bin/closed: /bin/closed is not executable
/bin/text: /bin/text is neither an ELF program nor a script
/bin/bare: /bin/bare has no interpreter
/bin/no-shell: /bin/bash, the interpreter of /bin/no-shell, does not exist
/bin/shut-shell: /bin/closed, the interpreter of /bin/shut-shell, is not executable
/bin/itself: /bin/itself, the interpreter of /bin/itself, needs too many interpreters
`) {
		got := Root(root).WhyNotExecutable(path)
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("WhyNotExecutable(%s): got %q, want %q", path, got, want)
		}
	}
}

// linkedProgram returns an ELF program with a dynamic linker.
func linkedProgram(linker string) []byte {
	const head, entry = 64, 56
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
			Type:    uint16(elf.ET_EXEC),
			Machine: uint16(elf.EM_X86_64),
			Version: uint32(elf.EV_CURRENT), Phoff: head, Ehsize: head, Phentsize: entry, Phnum: 1,
		},
		elf.Prog64{Type: uint32(elf.PT_INTERP), Off: head + entry, Filesz: uint64(len(linker) + 1)},
		append([]byte(linker), 0),
	} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer takes all
	}

	return b.Bytes()
}
