// Package unitflags checks the flags and drop-ins with which a machine starts its kubelet, in the files of its unit
// that a plan does not read. It reads files, and changes none.
package unitflags

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot/effective"
	"github.com/prelet/prelet/internal/boot/judge"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/value"
)

// ErrOtherProgram is the error for a unit that starts another program than the kubelet, such as a shell.
var ErrOtherProgram = errors.New("the unit does not start the kubelet itself")

// ErrNoCommand is the error for a unit that starts nothing, such as one that is masked.
var ErrNoCommand = errors.New("the unit has no command line")

// ErrRefused is the error for a unit that systemd does not load.
var ErrRefused = errors.New("systemd refuses the unit")

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
func (u KubeletUnit) CheckFlags() hcl.Diagnostics {
	words, _, err := u.ListWords()
	if errors.Is(err, ErrNoCommand) {
		return nil
	}
	if errors.Is(err, ErrRefused) {
		return hcl.Diagnostics{origin.Error(fault.Systemd, hcl.Range{}, "systemd would not start "+u.Name,
			"%s. Correct the unit.", origin.Capitalize(err.Error()))}
	}
	if err != nil {
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+u.Name+" are not checked",
			"%s.", origin.Capitalize(nodefile.Reason(err)))}
	}

	return append(u.checkFiles(), judge.DiagnoseFlags(words, u.Kubelet)...)
}

// checkFiles reports an environment file without which systemd does not start the unit. Below another root it may come
// while that machine boots.
func (u KubeletUnit) checkFiles() hcl.Diagnostics {
	unit, err := systemd.ReadPlannedUnit(u.Root, u.Name, u.Planned)
	if err != nil {
		return nil
	}
	file, place := unit.FindMissingFile(u.Root, u.Planned)
	if file == "" {
		return nil
	}

	report := origin.Error
	if u.Root != "" {
		report = origin.Warning
	}

	return hcl.Diagnostics{report(fault.Systemd, hcl.Range{}, "systemd would not start "+u.Name,
		"%s does not exist, and EnvironmentFile= in %s needs it. Create it, or write EnvironmentFile=-%s there.",
		file, place, file)}
}

// CheckDropIns checks the drop-ins in the folder of --config-dir of an image, which the kubelet merges over its file,
// with those that the site writes. The site may change those that mayWrite reports.
func (u KubeletUnit) CheckDropIns(mayWrite func(path string) bool) (diags hcl.Diagnostics) {
	words, _, err := u.ListWords()
	if err != nil {
		return nil // CheckFlags has reported it
	}
	flags := kubelet.FlagsOf(words)
	folder, ok := flags.LookupPath("config-dir")
	if !ok {
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
func ListPlanned(root nodefile.Root, files []node.File) map[string][]byte {
	planned := map[string][]byte{}
	for _, f := range files {
		if f.Kind != node.Regular {
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

// ListWords returns the arguments of the unit's kubelet and its variables, NAME=VALUE, as systemd passes them. Words
// that only the start of the unit decides, or that have a secret, are open. A unit that starts nothing, or another
// program, such as a shell, is an error. An environment file that cannot be read has none: the plan reports it.
func (u KubeletUnit) ListWords() (words []kubelet.Word, variables []string, err error) {
	file, err := systemd.ReadPlannedUnit(u.Root, u.Name, u.Planned)
	if err != nil {
		return nil, nil, err
	}
	start := file.Unit(kubelet.Argv)
	switch {
	case start.Refusal != "" && len(start.Command) > 0:
		return nil, nil, fmt.Errorf("%w: %s", ErrRefused, start.Refusal)
	case file.Load == "masked" || len(start.Command) == 0:
		return nil, nil, ErrNoCommand
	case path.Base(start.Command[0]) != "kubelet":
		return nil, nil, fmt.Errorf("%w: it starts %s", ErrOtherProgram, start.Command[0])
	}

	var environment kubelet.Environment
	for _, v := range start.Environment {
		name, text, _ := strings.Cut(v, "=")
		environment.Set(name, kubelet.Word{Text: text, From: start.EnvironmentAt[name]})
	}
	for _, f := range start.EnvironmentFiles {
		for _, file := range systemd.Glob(u.Root, f.Path) {
			if env, err := kubelet.ParseEnvFile(u.readPlanned(file)); err == nil {
				environment.AddFile(env, file)
			}
		}
	}
	for _, line := range file.Settings["UnsetEnvironment"] {
		for _, name := range kubelet.Argv(line.Value) {
			environment.Unset(name)
		}
	}

	if start.Literal {
		for _, text := range start.Command[1:] {
			words = append(words, kubelet.Word{Text: text, From: start.CommandAt})
		}
	} else {
		words = environment.Expand(start.Command[1:], start.CommandAt)
	}
	for i, w := range words {
		words[i].Open = w.Open || strings.Contains(w.Text, systemd.AtStart) || value.HasPlaceholder(w.Text)
	}

	return words, environment.List(), nil
}

// readPlanned returns the text of a file as it will be; "" if it cannot be read.
func (u KubeletUnit) readPlanned(file string) string {
	if text, isPlanned := u.Planned[file]; isPlanned {
		return string(text)
	}

	return u.Root.TextIfReadable(file)
}
