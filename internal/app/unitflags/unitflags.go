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

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lazy"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/value"
)

// flagWord is one argument of the kubelet.
type flagWord struct {
	text string
	from string // the unit or the file that has it, for people
}

// Unit is the kubelet's unit of a machine, as it will be with the files that a site changes.
type Unit struct {
	Root    nodefile.Root
	Name    string
	Kubelet string            // the version of the kubelet; "" is any
	Planned map[string][]byte // as for systemd.ReadPlannedUnit
}

// CheckFlags checks the flags with which a machine starts its kubelet: those of its unit, of the unit's drop-ins and of
// all their environment files. A plan reads only those files that the site or kubeadm writes, as others may have
// secrets that a recording must not contain.
func (u Unit) CheckFlags() hcl.Diagnostics {
	words, err := u.readFlags()
	if err != nil {
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+u.Name+" are not checked",
			"%s.", origin.Capitalize(nodefile.Reason(err)))}
	}

	all := flagsOf(words)
	var flags []rules.Flag
	for _, name := range all.Names() {
		last, _ := all.Lookup(name)
		for _, value := range append(all.Earlier(name), last) {
			flags = append(flags, rules.Flag{Name: name, Value: value})
		}
	}

	subject := rules.Subject{Flags: flags, Version: u.Kubelet}
	diags := boot.Diagnose(subject, func(f rules.Violation) string {
		return whereIs(words, func(word string) bool {
			_, ok := kubelet.FlagsOf([]string{word}).Lookup(f.Flag)
			return ok
		})
	})
	for _, stray := range all.Stray() {
		where := whereIs(words, func(word string) bool { return word == stray })
		diags = append(diags, origin.Error(fault.FlagsInvalid, hcl.Range{}, fmt.Sprintf("%q is not a flag", stray),
			"The kubelet would exit with \"unknown command\" (set by %s). Remove it there.", where))
	}

	return diags
}

// CheckDropIns checks the drop-ins in the folder of --config-dir of an image, which the kubelet merges over its file,
// with those that the site writes. The site may change those that mayWrite reports.
func (u Unit) CheckDropIns(mayWrite func(path string) bool) (diags hcl.Diagnostics) {
	words, err := u.readFlags()
	if err != nil {
		return nil // CheckFlags has reported it
	}
	folder, ok := flagsOf(words).Lookup("config-dir")
	if !ok {
		return nil
	}
	folder = path.Clean(folder)

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
	slices.SortStableFunc(files, boot.CompareDropIns)

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

	subject := rules.Subject{Config: merged, Version: u.Kubelet}

	return append(diags, boot.Diagnose(subject, func(f rules.Violation) string {
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
		return boot.ParsePlannedDropIn(string(text))
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

func flagsOf(words []flagWord) *kubelet.Flags {
	var argv []string
	for _, w := range words {
		argv = append(argv, w.text)
	}

	return kubelet.FlagsOf(argv)
}

// whereIs returns the place of the last word that matches.
func whereIs(words []flagWord, matches func(word string) bool) string {
	for _, w := range slices.Backward(words) {
		if matches(w.text) {
			return w.from
		}
	}

	return ""
}

// readFlags returns the arguments of the unit's kubelet, as systemd passes them. A unit that starts another program,
// such as a shell, is an error. An environment file that cannot be read has none: the plan reports it.
func (u Unit) readFlags() (out []flagWord, err error) {
	file, err := systemd.ReadPlannedUnit(u.Root, u.Name, u.Planned)
	if err != nil || file.Load == "masked" {
		return nil, err
	}
	start := file.Unit(kubelet.Argv)
	switch {
	case len(start.Command) == 0:
		return nil, nil
	case path.Base(start.Command[0]) != "kubelet":
		return nil, fmt.Errorf("it starts %s, not the kubelet itself", start.Command[0])
	}

	variables := map[string]flagWord{}
	for _, v := range start.Environment {
		name, text, _ := strings.Cut(v, "=")
		variables[name] = flagWord{text, u.Name}
	}
	for _, f := range start.EnvironmentFiles {
		for _, file := range systemd.Glob(u.Root, f.Path) {
			env, err := kubelet.ParseEnvFile(u.readPlanned(file))
			if err != nil {
				continue
			}
			for _, name := range env.Names() {
				text, _ := env.Value(name)
				variables[name] = flagWord{text, file}
			}
		}
	}
	for _, line := range file.Settings["UnsetEnvironment"] {
		for _, name := range kubelet.Argv(line) {
			delete(variables, name)
		}
	}

	for _, word := range start.Command[1:] {
		for _, w := range expand(word, u.Name, variables) {
			isFlag := strings.HasPrefix(w.text, "-")
			isKnownAtStart := strings.Contains(w.text, systemd.AtStart) || value.HasPlaceholder(w.text)
			switch last := len(out) - 1; {
			case !isKnownAtStart:
				out = append(out, w)
			case !isFlag && last >= 0: // it may be the value of the flag before it
				out = out[:last]
			}
		}
	}

	return out, nil
}

// readPlanned returns the text of a file as it will be; "" if it cannot be read.
func (u Unit) readPlanned(file string) string {
	if text, isPlanned := u.Planned[file]; isPlanned {
		return string(text)
	}

	return u.Root.TextIfReadable(file)
}

var (
	bareVariable   = lazy.Regexp(`^\$\w+$`)
	bracedVariable = lazy.Regexp(`\$\{\w+\}`)
)

// expand replaces the variables of a word as systemd does: $NAME, alone, is as many words as its value has, and
// ${NAME} is a part of one word, whatever its value.
func expand(word, unit string, variables map[string]flagWord) (out []flagWord) {
	if bareVariable().MatchString(word) {
		v := variables[word[1:]]
		for _, text := range kubelet.Argv(v.text) {
			out = append(out, flagWord{text, v.from})
		}

		return out
	}

	from := unit
	text := bracedVariable().ReplaceAllStringFunc(word, func(name string) string {
		v := variables[strings.Trim(name, "${}")]
		if name == word && len(kubelet.Argv(v.text)) != 1 {
			from = fmt.Sprintf("%s, which passes %s as one argument: write $%s there",
				unit, name, strings.Trim(name, "${}"))
		}

		return v.text
	})

	return []flagWord{{text, from}}
}
