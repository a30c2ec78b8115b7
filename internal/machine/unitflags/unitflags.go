// Package unitflags reads the command line with which a machine starts its kubelet, in all files of its unit. A plan
// reads only those that prelet or kubeadm writes, since others may have secrets. It writes nothing.
package unitflags

import (
	"errors"
	"fmt"
	"path"

	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// ErrOtherProgram is the error for a unit that starts another program than the kubelet, such as a shell.
var ErrOtherProgram = errors.New("the unit does not start the kubelet itself")

// ErrNoCommand is the error for a unit that starts nothing, such as a masked unit.
var ErrNoCommand = errors.New("the unit has no command line")

// ErrRefused is the error for a unit that systemd does not load.
var ErrRefused = errors.New("systemd refuses the unit")

// KubeletUnit is the kubelet's unit of a machine, as it will be with the files that a site changes.
type KubeletUnit struct {
	Root    nodefile.Root
	Name    string
	Planned map[string][]byte // as for systemd.ReadPlannedUnit
}

// CommandLine is how systemd starts the kubelet of a unit, with all that its environment files have.
type CommandLine struct {
	Words     []kubelet.Word // the arguments
	Variables []string       // NAME=VALUE
	Folder    string         // in which it starts; "" for the root

	Missing, NeededAt string // an environment file that must exist, and the place that needs it
}

// Read returns the unit's command line. Words that only the start of the unit decides, or that have a secret, are open.
// A unit that starts nothing, or another program, such as a shell, is an error.
func (u KubeletUnit) Read() (line CommandLine, err error) {
	file, err := systemd.ReadPlannedUnit(u.Root, u.Name, u.Planned)
	if err != nil {
		return line, err
	}
	unit := file.Define(kubelet.Argv)
	switch {
	case file.Load == "loaded" && unit.Refusal != "":
		return line, fmt.Errorf("%w: %s", ErrRefused, unit.Refusal)
	case file.Load == "masked" || len(unit.Command) == 0:
		return line, ErrNoCommand
	case path.Base(unit.Command[0]) != "kubelet":
		return line, fmt.Errorf("%w: it starts %s", ErrOtherProgram, unit.Command[0])
	}

	line = u.expand(unit)
	line.Missing, line.NeededAt = file.FindMissingFile(u.Root, u.Planned)

	return line, nil
}

// expand returns the command line of a unit, with its environment.
func (u KubeletUnit) expand(unit unitfile.Definition) CommandLine {
	show := func(_, text string) (*string, bool) { return &text, true }
	start := probe.StartReader{Root: u.Root, Read: u.readPlanned, Show: show}.Describe(unit)
	environment := kubelet.NewEnvironment(*start)

	return CommandLine{Words: environment.Expand(start.Words[1:]), Variables: environment.List(), Folder: start.Folder}
}

// ReadRuntime returns the words with which a unit starts containerd, as they are written, and the file of its --config.
func ReadRuntime(root nodefile.Root, unit string) (command []string, config string) {
	file, _ := systemd.ReadUnitFile(root, unit) // without its files it has no words
	u := file.Define(kubelet.Argv)
	if len(u.Command) == 0 {
		return nil, ""
	}
	words := KubeletUnit{Root: root}.expand(u).Words
	for i, w := range words {
		if w.Text == "-c" {
			words[i].Text = "--config"
		}
	}

	return u.Command, kubelet.FlagsOf(words).LookupPath("", "config")
}

// readPlanned returns the text of a file as it will be.
func (u KubeletUnit) readPlanned(file string) (string, error) {
	if text, isPlanned := u.Planned[file]; isPlanned {
		return string(text), nil
	}
	text, f := u.Root.Text(file)
	if f != nil {
		return "", f
	}

	return text, nil
}
