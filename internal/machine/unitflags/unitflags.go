// Package unitflags checks the flags and drop-ins with which a machine starts its kubelet, in the files of its unit
// that a plan does not read. The dry run of a kubelet's binary needs them at a boot. It writes nothing.
package unitflags

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// ErrOtherProgram is the error for a unit that starts another program than the kubelet, such as a shell.
var ErrOtherProgram = errors.New("the unit does not start the kubelet itself")

// ErrNoCommand is the error for a unit that starts nothing, such as a masked unit.
var ErrNoCommand = errors.New("the unit has no command line")

// errRefused is the error for a unit that systemd does not load.
var errRefused = errors.New("systemd refuses the unit")

// KubeletUnit is the kubelet's unit of a machine, as it will be with the files that a site changes.
type KubeletUnit struct {
	Root    nodefile.Root
	Name    string
	Kubelet string            // the version of the kubelet; "" is any
	Planned map[string][]byte // as for systemd.ReadPlannedUnit
}

// CheckFlags checks the flags with which a machine starts its kubelet: those of its unit, of the unit's drop-ins and of
// all their environment files. A plan reads only those files that the site or kubeadm writes, as others may have
// secrets that a recording must not contain.
func (u KubeletUnit) CheckFlags() (diags hcl.Diagnostics) {
	summary := "systemd would not start " + u.Name
	line, err := u.Read()
	switch {
	case errors.Is(err, ErrNoCommand):
		return nil
	case errors.Is(err, errRefused):
		return hcl.Diagnostics{origin.Error(fault.Systemd, hcl.Range{}, summary,
			"%s. Correct the unit.", origin.Capitalize(err.Error()))}
	case err != nil:
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+u.Name+" are not checked",
			"%s.", origin.Capitalize(nodefile.Reason(err)))}
	}

	if file := line.missing; file != "" {
		report := origin.Error
		if u.Root != "" { // it may come while that machine boots
			report = origin.Warning
		}
		diags = append(diags, report(fault.Systemd, hcl.Range{}, summary,
			"%s does not exist, and EnvironmentFile= in %s needs it. Create it, or write EnvironmentFile=-%s there.",
			file, line.missingAt, file))
	}

	return append(diags, judge.DiagnoseFlags(line.Words, u.Kubelet)...)
}

// CheckDropIns checks the drop-ins in the folder of --config-dir of an image, which the kubelet merges over its file,
// with those that the site writes. The site may change those that mayWrite reports.
func (u KubeletUnit) CheckDropIns(mayWrite func(path string) bool) (diags hcl.Diagnostics) {
	line, err := u.Read()
	if err != nil {
		return nil // CheckFlags has reported it
	}
	flags := kubelet.FlagsOf(line.Words)
	folder := flags.LookupPath(line.Folder, "config-dir")
	if folder == "" {
		return nil
	}

	files, err := probe.ListDropIns(u.Root, folder)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the site may make it
	case err != nil:
		return hcl.Diagnostics{refuseDropIn(folder, nodefile.Reason(err))}
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		_, isPlanned := u.Planned[file]
		return isPlanned || mayWrite(file)
	})
	for file, text := range u.Planned {
		if strings.HasPrefix(file, folder+"/") && path.Ext(file) == ".conf" && text != nil {
			files = append(files, file)
		}
	}
	slices.SortStableFunc(files, effective.CompareDropIns)

	merged := kubelet.NewConfig()
	all := map[string]*kubelet.Config{}
	for _, file := range files {
		config, err := u.readDropIn(file)
		if err == nil {
			err = merged.Merge(config.Object())
		}
		if err != nil {
			diags = append(diags, refuseDropIn(file, err.Error()))
			continue
		}
		all[file] = config
	}

	subject := rules.Subject{Config: merged, Flags: rules.ListFlags(flags), Version: u.Kubelet}

	return append(diags, judge.Diagnose(subject, func(f rules.Violation) string {
		for _, file := range slices.Backward(files) {
			if c := all[file]; c != nil {
				if _, ok := c.Get(f.Pointer); ok {
					return file
				}
			}
		}

		return folder
	})...)
}

// readDropIn reads a drop-in of the kubelet's configuration, as it is planned or on the disk.
func (u KubeletUnit) readDropIn(file string) (*kubelet.Config, error) {
	if text := u.Planned[file]; text != nil {
		return effective.ParsePlannedDropIn(string(text))
	}

	text, f := u.Root.Text(file)
	if f != nil {
		return nil, f
	}

	return kubelet.ParseDropIn(text)
}

// ListPlanned returns the texts of planned files by path, as for systemd.ReadPlannedUnit. A file with create_only that
// exists stays as it is.
func ListPlanned(root nodefile.Root, files []desired.File) map[string][]byte {
	planned := map[string][]byte{}
	for _, f := range files {
		if f.Kind != desired.Regular {
			continue
		}
		if f.CreateOnly {
			_, missing := root.Text(f.Path)
			if missing == nil || missing.Code != fault.Absent {
				continue
			}
		}
		planned[f.Path] = []byte(f.Text.Template())
	}

	return planned
}

func refuseDropIn(path, why string) *hcl.Diagnostic {
	return origin.Error(fault.ConfigInvalid, hcl.Range{}, "The kubelet cannot read "+path,
		"%s. It merges what is there over its configuration, and would not start. Fix or remove it.",
		origin.Capitalize(strings.TrimSuffix(why, ".")))
}

// CommandLine is how systemd starts the kubelet of a unit, with all that its environment files have.
type CommandLine struct {
	Words     []kubelet.Word // the arguments
	Variables []string       // NAME=VALUE
	Folder    string         // in which it starts; "" for the root

	missing, missingAt string // an environment file that must exist, and the place that needs it
}

// Read returns the unit's command line. Words that only the start of the unit decides, or that have a secret, are open.
// A unit that starts nothing, or another program, such as a shell, is an error.
func (u KubeletUnit) Read() (line CommandLine, err error) {
	file, err := systemd.ReadPlannedUnit(u.Root, u.Name, u.Planned)
	if err != nil {
		return line, err
	}
	unit := file.Unit(kubelet.Argv)
	switch {
	case file.Load == "loaded" && unit.Refusal != "":
		return line, fmt.Errorf("%w: %s", errRefused, unit.Refusal)
	case file.Load == "masked" || len(unit.Command) == 0:
		return line, ErrNoCommand
	case path.Base(unit.Command[0]) != "kubelet":
		return line, fmt.Errorf("%w: it starts %s", ErrOtherProgram, unit.Command[0])
	}

	show := func(_, text string) (*string, bool) { return &text, true }
	start := probe.StartReader{Root: u.Root, Read: u.readPlanned, Show: show}.Describe(unit)
	environment := kubelet.NewEnvironment(*start)
	line.Words, line.Variables = environment.Expand(start.Words[1:]), environment.List()
	line.Folder = start.Folder
	line.missing, line.missingAt = file.FindMissingFile(u.Root, u.Planned)

	return line, nil
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
