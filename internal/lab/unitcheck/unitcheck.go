// Package unitcheck checks the flags and drop-ins with which a machine starts its kubelet, in the files of its unit
// that a plan does not read. It writes nothing.
package unitcheck

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/machine/unitflags"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/effective"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Unit is the kubelet's unit of a machine, and the version of its kubelet; "" is any.
type Unit struct {
	unitflags.KubeletUnit
	Kubelet string
}

// CheckFlags checks the flags with which a machine starts its kubelet: those of its unit, of the unit's drop-ins and of
// all their environment files. A plan reads only those files that the site or kubeadm writes, as others may have
// secrets that a recording must not contain.
func (u Unit) CheckFlags() (diags hcl.Diagnostics) {
	summary := "systemd would not start " + u.Name
	line, err := u.Read()
	switch {
	case errors.Is(err, unitflags.ErrNoCommand):
		return nil
	case errors.Is(err, unitflags.ErrRefused):
		return hcl.Diagnostics{origin.Error(fault.Systemd, hcl.Range{}, summary,
			"%s. Correct the unit.", origin.Capitalize(err.Error()))}
	case err != nil:
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+u.Name+" are not checked",
			"%s.", origin.Capitalize(nodefile.Reason(err)))}
	}

	if file := line.Missing; file != "" {
		report := origin.Error
		if u.Root != "" { // it may come while that machine boots
			report = origin.Warning
		}
		diags = append(diags, report(fault.Systemd, hcl.Range{}, summary,
			"%s does not exist, and EnvironmentFile= in %s needs it. Create it, or write EnvironmentFile=-%s there.",
			file, line.NeededAt, file))
	}
	if file := u.findMissingKubeconfig(line); file != "" {
		diags = append(diags, origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet of "+u.Name+" would end: "+file+" does not exist",
			"Without --bootstrap-kubeconfig it does not make the file of --kubeconfig. Add that flag, or bring "+
				"the file before the kubelet starts."))
	}

	return append(diags, judge.DiagnoseFlags(line.Words, u.Kubelet)...)
}

// findMissingKubeconfig returns the file of --kubeconfig if neither the machine nor the plan has it, and no word of the
// command line lets the kubelet make it; "" if one does, or may.
func (u Unit) findMissingKubeconfig(line unitflags.CommandLine) string {
	flags := kubelet.FlagsOf(line.Words)
	file := flags.LookupPath(line.Folder, "kubeconfig")
	isOpen := slices.ContainsFunc(line.Words, func(w kubelet.Word) bool { return w.Open || w.Assumed })
	if file == "" || isOpen || flags.LookupPath("", "bootstrap-kubeconfig") != "" {
		return ""
	}
	if text, isPlanned := u.Planned[file]; isPlanned && text != nil {
		return ""
	}

	look, err := u.Root.Look(file, nodefile.FollowAll)
	if err == nil {
		look.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return ""
	}

	return file
}

// CheckDropIns checks the drop-ins in the folder of --config-dir of an image, which the kubelet merges over its file,
// with those that the site writes. The site may change those that mayWrite reports.
func (u Unit) CheckDropIns(mayWrite func(path string) bool) (diags hcl.Diagnostics) {
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

	subject := rules.Subject{Config: merged, Flags: flags.Parsed(), Version: u.Kubelet}

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
func (u Unit) readDropIn(file string) (*kubelet.Config, error) {
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
