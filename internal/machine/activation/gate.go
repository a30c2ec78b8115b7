package activation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/platform/atomicfile"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Gate is the file without which the kubelet does not start: the EnvironmentFile= of the drop-in in the package. It
// is on a tmpfs, so the gate is shut at each boot.
//
// The other files in its folder are notes for later processes of this boot; below, each has its meaning.
type Gate struct {
	Root   nodefile.Root // Dir is below it; a gate below a root is only read
	Dir    string        // the run folder, /run/prelet; it exists
	BootID string        // files of another boot (in a run folder on a disk) are ignored
}

const (
	gateFile     = "kubelet.env"
	reasonFile   = "kubelet.reason"     // why the gate is shut
	openedFile   = "kubelet.opened"     // this boot opened the gate
	owedFile     = "kubelet.owed"       // prelet stopped the kubelet, and owes it a start
	seenFile     = "kubelet.seen"       // a kubelet was seen running
	doneFile     = "units.done"         // actions on units for a commit, if systemd does not record them
	failedFile   = "units.failed"       // an action on a unit for a commit that failed, and why
	exemptFile   = "units.exempt"       // the units that no verdict on the next commit is about
	askedFile    = "run.asked"          // why a run was requested
	pendingFile  = "generation.pending" // a generation has no verdict: prelet-verify.service starts if it exists
	spaceFile    = "kubelet.space"      // whether there is space for the others; it is removed at once
	gateVariable = "PRELET_GENERATION="
)

// Path returns the path of the file, as in the drop-in.
func (g Gate) Path() string { return filepath.Join(g.Dir, gateFile) }

// Open lets the kubelet start on a generation. 0 is a node on which prelet is not in use, or the state before prelet.
func (g Gate) Open(generation int) error {
	if err := g.write(openedFile, g.BootID); err != nil {
		return err
	}

	err := g.write(gateFile, gateVariable+strconv.Itoa(generation))
	if err != nil {
		return err
	}

	return errors.Join(g.remove(reasonFile), g.remove(askedFile))
}

// Shut keeps the kubelet from starting, and stores the reason. It does not touch a running kubelet.
func (g Gate) Shut(why string) error {
	if err := g.remove(gateFile); err != nil {
		return err
	}

	return g.write(reasonFile, oneLine(why))
}

// The space that the gate and its notes need at most for a commit.
const (
	gateSpace = 64 << 10 // bytes
	gateFiles = 8        // inodes
)

// checkSpace returns a fault if the run folder has no space for the gate and its notes: a commit could not shut the
// gate, or open it again. It leaves nothing behind.
func (g Gate) checkSpace() error {
	err := g.write(spaceFile, strings.Repeat(" ", gateSpace))
	err = errors.Join(err, g.remove(spaceFile))
	if d := g.disk(); err == nil && d.Err == nil && d.Files < gateFiles {
		err = g.fault("write", gateFile, unix.ENOSPC)
	}

	return err
}

func (g Gate) disk() nodefile.Disk { return g.Root.FindDisk(filepath.Join(g.Dir, spaceFile)) }

// WhyFull returns that the run folder has no space, with the next step; "" if it has.
func (g Gate) WhyFull() string {
	d := g.disk()
	if d.Err != nil || d.Free >= gateSpace && d.Files >= gateFiles {
		return ""
	}

	return g.Dir + " has no space left: " + g.nextFree()
}

func (g Gate) nextFree() string {
	return "free space and inodes of " + g.Dir + ", which is in memory: df -h " + g.Dir + ", df -i " + g.Dir
}

// State reports whether the gate is open, and on which generation; -1 when the file is not from prelet.
func (g Gate) State() (generation int, open bool, err error) {
	text, err := g.Root.ReadFile(g.Path(), nodefile.Max)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, g.fault("read", gateFile, err)
	}

	number, ours := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), gateVariable)

	n, err := strconv.Atoi(number)
	if !ours || err != nil || n < 0 {
		return -1, true, nil
	}

	return n, true, nil
}

// IsShut reports whether the gate is shut, as far as that can be read.
func (g Gate) IsShut() bool {
	_, isOpen, err := g.State()

	return err == nil && !isOpen
}

// Reason returns the reason of the last Shut, or "".
func (g Gate) Reason() string { return g.read(reasonFile) }

// WasOpened reports whether this boot has opened the gate. A gate that is missing then was lost, not shut.
func (g Gate) WasOpened() bool {
	return g.BootID != "" && g.read(openedFile) == g.BootID
}

// MarkSeen notes that the unit was alive in this boot: a kubelet may have started before the gate existed.
func (g Gate) MarkSeen() error { return g.write(seenFile, g.BootID) }

// HasBlockedAll reports whether no kubelet can have started in this boot: the gate was not open in this boot, and no
// kubelet was seen.
func (g Gate) HasBlockedAll() bool {
	return g.BootID != "" && !g.WasOpened() && g.read(seenFile) != g.BootID
}

// MarkOwed notes that prelet is about to stop a unit that has to run again. If prelet is killed, the next process reads
// this note.
func (g Gate) MarkOwed(unit string) error {
	return g.write(owedFile, g.BootID+" "+unit)
}

// IsOwed reports whether a start is owed to the unit in this boot.
func (g Gate) IsOwed(unit string) bool {
	return g.read(owedFile) == g.BootID+" "+unit
}

// ClearOwed removes the note of MarkOwed.
func (g Gate) ClearOwed() error { return g.remove(owedFile) }

// MarkDone notes an action on a unit for a commit, if systemd does not record it.
func (g Gate) MarkDone(key string) error {
	if g.IsDone(key) {
		return nil
	}

	earlier := strings.TrimPrefix(g.read(doneFile)+"\n", "\n")

	return g.write(doneFile, earlier+g.BootID+" "+key)
}

// IsDone reports whether MarkDone was called for a key in this boot.
func (g Gate) IsDone(key string) bool {
	return slices.Contains(strings.Split(g.read(doneFile), "\n"), g.BootID+" "+key)
}

// MarkFailed notes a failed action on a unit for a commit. It is part of the verdict, also in another process.
func (g Gate) MarkFailed(key, why string) error {
	return g.write(failedFile, g.BootID+" "+key+" "+oneLine(why))
}

// Failure returns the failure that MarkFailed has noted for a key in this boot, or "".
func (g Gate) Failure(key string) string {
	why, ok := strings.CutPrefix(g.read(failedFile), g.BootID+" "+key+" ")
	if ok {
		return why
	}

	return ""
}

// ClearFailure removes the note of MarkFailed.
func (g Gate) ClearFailure(key string) error {
	if g.Failure(key) == "" {
		return nil
	}

	return g.remove(failedFile)
}

// SetExempt notes the units that no verdict on the next commit is about, in place of those that were noted before.
func (g Gate) SetExempt(units []string) error {
	if len(units) == 0 {
		return g.remove(exemptFile)
	}

	return g.write(exemptFile, g.BootID+" "+strings.Join(units, " "))
}

// Exempt returns the units of SetExempt in this boot.
func (g Gate) Exempt() []string {
	names, ok := strings.CutPrefix(g.read(exemptFile), g.BootID+" ")
	if ok {
		return strings.Fields(names)
	}

	return nil
}

// MarkAsked notes why a run was requested while the gate is shut.
func (g Gate) MarkAsked(why string) error {
	return g.write(askedFile, g.BootID+" "+oneLine(why))
}

// WasAsked reports whether MarkAsked was called for the same reason since the gate was last open.
func (g Gate) WasAsked(why string) bool {
	return g.read(askedFile) == g.BootID+" "+oneLine(why)
}

// SetPending notes whether a generation has no verdict, or may have none: each start of the kubelet then starts
// prelet-verify.service. The journal itself is not in /run, and systemd must not look outside of it.
func (g Gate) SetPending(isPending bool) error {
	if !isPending {
		return g.remove(pendingFile)
	}

	return g.write(pendingFile, g.BootID)
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(text), " ")
}

func (g Gate) read(name string) string {
	text, err := g.Root.ReadFile(filepath.Join(g.Dir, name), nodefile.Max)
	if err != nil {
		return ""
	}

	return strings.TrimSuffix(string(text), "\n")
}

// write replaces one of the files atomically, because systemd may read it at any moment. The files are readable by all
// users: `prelet status` does not need root.
func (g Gate) write(name, line string) error {
	path := filepath.Join(g.Dir, name)
	err := atomicfile.File(path, 0o644, []byte(line+"\n"))
	if err != nil {
		return g.fault("write", name, err)
	}

	return nil
}

func (g Gate) remove(name string) error {
	if err := atomicfile.Remove(filepath.Join(g.Dir, name)); err != nil {
		return g.fault("remove", name, err)
	}

	return nil
}

// fault returns an error of one of the files as a fault.CannotWrite with the file's path.
func (g Gate) fault(op, name string, err error) error {
	path := filepath.Join(g.Dir, name)

	var next string

	switch info, statErr := os.Stat(path); {
	case statErr == nil && info.IsDir():
		next = "move that folder away, it has the name of a file of prelet"
	case errors.Is(err, fs.ErrNotExist):
		next = "create the folder " + g.Dir + " with mode 0755"
	case errors.Is(err, unix.ENOSPC):
		next = g.nextFree()
	}

	var at *fs.PathError
	if errors.As(err, &at) { // the fault has the path already
		err = at.Err
	}

	return generation.NewFault(fault.CannotWrite, op, path, err, next)
}
