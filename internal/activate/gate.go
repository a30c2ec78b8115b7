package activate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/replace"
)

// Gate is the file without which the kubelet does not start: the EnvironmentFile= of the drop-in that the package ships. It
// lives in memory, so each boot begins with it shut.
//
// Beside it lie what a later process must know of this boot: why the gate is shut, that this boot had opened it, that a kubelet
// was seen to run, and that we stopped it and owe it a start.
type Gate struct {
	Dir    string // the run folder, /run/prelet; it exists
	BootID string // what is left of another boot (a run folder that is on a disk) counts for nothing
}

const (
	gateFile     = "kubelet.env"
	reasonFile   = "kubelet.reason"
	openedFile   = "kubelet.opened"
	owedFile     = "kubelet.owed"
	seenFile     = "kubelet.seen"
	gateVariable = "PRELET_GENERATION="
)

// Path is the file's path, as the drop-in names it.
func (g Gate) Path() string { return filepath.Join(g.Dir, gateFile) }

// Open lets the kubelet start on a generation; 0 is a node on which prelet is not in use, or as before prelet.
func (g Gate) Open(generation int) error {
	if err := g.write(openedFile, g.BootID); err != nil {
		return err
	}

	if err := g.write(gateFile, gateVariable+strconv.Itoa(generation)); err != nil {
		return err
	}

	return g.remove(reasonFile)
}

// Shut keeps the kubelet from starting, and keeps why, for whoever is asked later. A kubelet that runs is not touched.
func (g Gate) Shut(why string) error {
	if err := g.remove(gateFile); err != nil {
		return err
	}

	return g.write(reasonFile, strings.Join(strings.Fields(why), " "))
}

// State says whether the gate is open, and on which generation; -1 when somebody else wrote the file.
func (g Gate) State() (generation int, open bool, err error) {
	text, err := os.ReadFile(g.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("gate: %w", err)
	}

	number, ours := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), gateVariable)

	n, err := strconv.Atoi(number)
	if !ours || err != nil || n < 0 {
		return -1, true, nil
	}

	return n, true, nil
}

// Why is the reason that Shut was given last, or empty.
func (g Gate) Reason() string { return g.read(reasonFile) }

// OpenedInThisBoot says whether the gate was open before in this boot: one that is missing then was lost, not kept shut.
func (g Gate) WasOpened() bool { return g.BootID != "" && g.read(openedFile) == g.BootID }

// Saw notes that the unit was seen alive in this boot: one may have started before the gate was there to keep it.
func (g Gate) MarkSeen() error { return g.write(seenFile, g.BootID) }

// NeverPassed says whether no kubelet can have started in this boot: the gate was not open in it, and none was seen.
func (g Gate) HasBlockedAll() bool {
	return g.BootID != "" && !g.WasOpened() && g.read(seenFile) != g.BootID
}

// Owe notes that we are about to stop a unit that has to run again afterwards, so that a successor knows if we are killed.
func (g Gate) MarkOwed(unit string) error { return g.write(owedFile, g.BootID+" "+unit) }

// Owed says whether a start is owed to the unit in this boot.
func (g Gate) IsOwed(unit string) bool { return g.read(owedFile) == g.BootID+" "+unit }

// Paid takes the note away.
func (g Gate) ClearOwed() error { return g.remove(owedFile) }

func (g Gate) read(name string) string {
	text, err := os.ReadFile(filepath.Join(g.Dir, name))
	if err != nil {
		return ""
	}

	return strings.TrimSuffix(string(text), "\n")
}

// write replaces one of the files whole: systemd may read it at any moment. `prelet status` is not for root only.
func (g Gate) write(name, line string) error {
	if err := replace.File(filepath.Join(g.Dir, name), 0o644, []byte(line+"\n")); err != nil {
		return fmt.Errorf("gate: %w", err)
	}

	return nil
}

func (g Gate) remove(name string) error {
	if err := os.Remove(filepath.Join(g.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("gate: %w", err)
	}

	return nil
}
