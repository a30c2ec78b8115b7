package hardware

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/osfile"
)

// ghw takes no context: what hangs in it is left behind, and what it panics at is an error.
func TestWithin(t *testing.T) {
	let := make(chan struct{})
	defer close(let)
	hang := func() (int, error) { <-let; return 1, nil }
	ended, end := context.WithCancelCause(context.Background())
	end(errors.New("the boot's time is up"))
	for name, tt := range map[string]struct {
		ctx      context.Context
		patience time.Duration
		call     func() (int, error)
		want     string
	}{
		"a call that hangs":      {context.Background(), 10 * time.Millisecond, hang, "ghw did not answer within 10ms"},
		"a call when time is up": {ended, time.Minute, hang, "ghw did not answer in time: the boot's time is up"},
		"a call that panics":     {context.Background(), time.Minute, func() (int, error) { panic("index out of range") }, "ghw panicked: index out of range"},
	} {
		d := &detection{ctx: tt.ctx, patience: tt.patience}
		if got, err := callWithin(d, "ghw", tt.call); got != 0 || err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %d and %v, want the error %q", name, got, err, tt.want)
		}
	}
}

// What ghw warns of is a note, with names as they are in the tree.
func TestWarningsOfGhwAreNoted(t *testing.T) {
	files := map[string]string{"sys/block/sda/size": "8\n", "sys/class/dmi/id/product_name": "Test\n"}
	pci(files, "0000:01:00.0", "10de:2330", "030200", "",
		map[string]string{"modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n"})
	quiet := detect(t, ReadOptions{Tree: tree(t, files)})
	for _, fact := range []string{"block_devices", "product", "bios", "chassis", "baseboard", "pci"} {
		if got := why(quiet, fact); got != "" {
			t.Errorf("expected warnings, %s: got the note %q, want none", fact, got)
		}
	}

	expected := expectedWarnings
	defer func() { expectedWarnings = expected }()
	expectedWarnings = nil

	facts := detect(t, ReadOptions{Tree: tree(t, files)})
	for fact, want := range map[string]string{
		"block_devices": "ghw: failed to read int from file: open /sys/block/sda/queue/rotational: no " +
			"such file or directory",
		"product": "ghw: Unable to read product_family: open /sys/class/dmi/id/product_family: no " +
			"such file or directory",
		"bios": "ghw: Unable to read bios_date: open /sys/class/dmi/id/bios_date: no such file " +
			"or directory",
		"chassis": "ghw: Unable to read chassis_asset_tag: open " +
			"/sys/class/dmi/id/chassis_asset_tag: no such file or directory",
		"baseboard": "ghw: Unable to read board_asset_tag: open /sys/class/dmi/id/board_asset_tag: no " +
			"such file or directory",
		"pci": "ghw: topology detection disabled, assuming SMP architecture",
	} {
		if got := why(facts, fact); !strings.HasPrefix(got, want) {
			t.Errorf("unexpected warnings, %s: got the note %q, want %q", fact, got, want)
		}
	}
}

// Lines and folders of another form than the kernel's cost no other fact.
func TestOddMemory(t *testing.T) {
	files := map[string]string{
		"proc/meminfo":                     "MemTotal\nMemTotal:        1048576 kB\n",
		"sys/kernel/mm/hugepages/odd/file": "1\n",
		"etc/machine-id":                   "0123456789abcdef0123456789abcdef",
	}
	facts := detect(t, ReadOptions{Tree: tree(t, files)})
	if got := number(facts.Memory.TotalBytes); got != "1073741824" || facts.MachineID == nil {
		t.Errorf("got %s bytes and machine id %v, want 1073741824 and one", got, value(facts.MachineID))
	}
	if got := why(facts, "memory.total_bytes"); got != "" {
		t.Errorf("memory.total_bytes: got the note %q, want none", got)
	}
}

// ghw follows links out of its root, and takes a root from the environment. It must read nothing but the copy.
func TestGhwReadsTheRecordedTreeOnly(t *testing.T) {
	outside := writeTree(t, map[string]string{
		"sys/class/dmi/id/product_name": "secret\n", "sys/class/dmi/id/bios_vendor": "secret\n", "sys/block/sda/size": "8\n",
		"sys/bus/pci/devices/0000:01:00.0/modalias": "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00\n",
		"proc/meminfo": "MemTotal:        7 kB\n", "run/udev/data/b8:0": "E:ID_MODEL=secret\n",
	})
	t.Setenv("GHW_CHROOT", outside)

	files := map[string]string{
		"sys/block/sda/dev": "../../../../secret\n", "sys/block/sdb/dev": "8:0\n",
		"sys/bus/pci/devices/0000:02:00.0/class": "0x030200\n",
	}
	for _, name := range []string{"sys/class/dmi", "sys/bus/pci/devices/0000:01:00.0", "run", "sys/block/sda/size"} {
		files[name] = "-> " + filepath.Join(outside, name)
	}
	dir := tree(t, files).root.Name()

	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	facts := detect(t, ReadOptions{Root: dir})
	if text := string(encode(t, facts)); strings.Contains(text, "secret") || strings.Contains(text, outside) {
		t.Errorf("got facts from outside of the tree, want none: %s", text)
	}
	if len(facts.PCI) != 0 || *facts.Memory.TotalBytes != 1<<30 || len(facts.BlockDevices) != 2 ||
		facts.BlockDevices[0].SizeBytes != nil {
		t.Errorf("got %d PCI functions, %d bytes and the disks %+v, want what is in the tree",
			len(facts.PCI), *facts.Memory.TotalBytes, facts.BlockDevices)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("after the detection: got %v and %v in the scratch folder, want nothing", left, err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	osfile.Write(t, name, text, 0o755)
}

// Without a place for the copy, what a boot needs and the PCI bus are read without ghw.
func TestNoPlaceForTheCopy(t *testing.T) {
	machine := recorded(t)["dgx-h100"]
	t.Setenv("TMPDIR", "/scratch")
	d := &detection{
		Tree:     machine,
		patience: time.Minute,
		copyErr:  copyError(&fs.PathError{Op: "mkdir", Path: "/tmp/x1", Err: syscall.ENOSPC}),
	}
	var last outcome
	for step := range d.read(context.Background()) {
		last = step
	}
	facts, err := completeFacts(context.Background(), last, len(sections))
	if err != nil || len(facts.PCI) < 30 || len(facts.Accelerators) != 8 || facts.Accelerators[0].Name == nil ||
		facts.Memory.TotalBytes == nil {
		t.Errorf(
			"got %d functions, %d accelerators, memory %v and %v, want all of the machine",
			len(facts.PCI),
			len(facts.Accelerators),
			value(facts.Memory.TotalBytes),
			err,
		)
	}
	const reason = "the recorded hardware cannot be copied to /scratch (no space left on device; set TMPDIR to " +
		"a folder with room)"
	for _, fact := range []string{"product.name", "bios.vendor", "block_devices"} {
		if got := why(facts, fact); got != reason && (fact != "block_devices" || got != "there is no /sys/block") {
			t.Errorf("%s: got the reason %q, want %q", fact, got, reason)
		}
	}
	if got, want := why(facts, "pci"), reason+", so /sys/bus/pci/devices was read instead"; got != want {
		t.Errorf("pci: got the note %q, want %q", got, want)
	}
}

// The place is TMPDIR alone where that is set: a folder that is not there is an error, and no other one is taken.
func TestTheCopyIsInTMPDIR(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	dir := tree(t, nil).root.Name()
	t.Setenv("TMPDIR", missing)

	reason := "the recorded hardware cannot be copied to " + missing + " (no such file or directory; set " +
		"TMPDIR to a folder with room)"
	if got := why(detect(t, ReadOptions{Root: dir}), "product.name"); got != reason {
		t.Errorf("a folder: got the reason %q, want %q", got, reason)
	}
}

// The next step of a copy that failed is another folder, if another folder helps.
func TestCopyFailed(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	for err, hasNext := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EACCES: true, syscall.ENOENT: true,
		syscall.ENAMETOOLONG: false, syscall.EMFILE: false,
	} {
		want := "the recorded hardware cannot be copied to /scratch (" + err.Error()
		if hasNext {
			want += "; set TMPDIR to a folder with room"
		}
		if got := copyError(&fs.PathError{Op: "open", Path: "/scratch/x", Err: err}); got.Error() != want+")" {
			t.Errorf("%v: got %q, want %q", err, got, want+")")
		}
	}
}

// What is lent to ghw is bounded in bytes: of a file in /sys a page, and of all of them what an archive may have.
func TestLendIsBounded(t *testing.T) {
	const file, meminfo = dmiFolder + "/product_name", "proc/meminfo"
	large := strings.Repeat("x", 100<<10)
	folder, err := os.OpenRoot(t.TempDir())
	must(t, err)
	defer folder.Close()
	d := &detection{Tree: tree(t, map[string]string{file: large, meminfo: large}), ctx: t.Context(), copy: folder}

	d.copyFiles(file, meminfo)
	for name, want := range map[string]int{file: 4 << 10, meminfo: 64 << 10} {
		if data, err := folder.ReadFile(name); err != nil || len(data) != want {
			t.Errorf("%s: got %d bytes and %v, want %d", name, len(data), err, want)
		}
	}
	if want := 68 << 10; d.copiedBytes != want || d.copyErr != nil {
		t.Errorf("got %d bytes and %v, want %d and no error", d.copiedBytes, d.copyErr, want)
	}

	d.copiedBytes = maxCopyBytes - 100
	d.copyFiles(meminfo)
	if want := "the recorded hardware has more than 64 MiB for ghw"; d.copyErr == nil || d.copyErr.Error() != want {
		t.Errorf("above the bound: got %v, want %s", d.copyErr, want)
	}
}

// TestAllFilesOfDMI copies every file of DMI that a fact is read from for ghw.
func TestAllFilesOfDMI(t *testing.T) {
	files := map[string]string{}
	for _, name := range strings.Fields(`
		product_name sys_vendor product_serial product_uuid product_sku bios_vendor bios_version bios_date
		chassis_type chassis_vendor chassis_version chassis_serial chassis_asset_tag board_name board_vendor
		board_version board_serial board_asset_tag
	`) {
		files[dmiFolder+"/"+name] = "A text\n"
	}
	files[dmiFolder+"/chassis_type"] = "23\n"

	for _, u := range detect(t, ReadOptions{Tree: tree(t, files)}).Unknown {
		if list, _, _ := strings.Cut(u.Fact, "."); slices.Contains(
			[]string{"product", "bios", "chassis", "baseboard"},
			list,
		) {
			t.Errorf("got no %s (%s), want a text", u.Fact, u.Why)
		}
	}
}
