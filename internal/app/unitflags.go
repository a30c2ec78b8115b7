package app

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// flagSource is a place with flags of the kubelet.
type flagSource struct {
	name  string // for people
	flags *kubelet.Flags
}

// judgeUnitFlags judges the flags with which a machine starts its kubelet: those of its unit, of the unit's drop-ins
// and of all their environment files. A plan reads only those files that the site or kubeadm writes, as others may have
// secrets that a recording must not contain.
// planned are the files that the site changes, as for systemd.ReadPlannedUnit.
func judgeUnitFlags(w Where, unit string, planned map[string][]byte) hcl.Diagnostics {
	sources, err := readUnitFlags(nodefile.Root(w.Root), unit, planned)
	if err != nil {
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+unit+" are not checked",
			"%s.", origin.Capitalize(nodefile.Reason(err)))}
	}

	var flags []rules.Flag
	for _, s := range sources {
		for _, name := range s.flags.Names() {
			last, _ := s.flags.Lookup(name)
			for _, value := range append(s.flags.Earlier(name), last) {
				flags = append(flags, rules.Flag{Name: name, Value: value})
			}
		}
	}

	return boot.DiagnoseFlags(flags, w.KubeletVersion, func(flag string) string {
		for _, s := range slices.Backward(sources) {
			if _, ok := s.flags.Lookup(flag); ok {
				return s.name
			}
		}

		return unit
	})
}

// addUnitFlags adds what is wrong with the flags of the machine of a plan that the plan does not say itself. It is
// nothing for a recorded machine, whose files are not here.
func addUnitFlags(p *boot.Plan, w Where, unit string) {
	if w.From != "" || w.Root == "" && w.Hardware != "" {
		return
	}
	if w.KubeletVersion == "" && p.Kubelet.Version != nil {
		w.KubeletVersion = *p.Kubelet.Version
	}

	planned := map[string][]byte{}
	for _, f := range p.Node.Files {
		if f.Kind == node.Regular && !f.CreateOnly {
			planned[f.Path] = []byte(f.Text.Template())
		}
	}
	for _, c := range p.Changes {
		if c.Action == "delete" {
			planned[c.File.Path] = nil
		}
	}

	for _, d := range judgeUnitFlags(w, unit, planned) {
		isSame := func(o *hcl.Diagnostic) bool { return o.Summary == d.Summary }
		if !slices.ContainsFunc(p.Diagnostics, isSame) {
			p.Diagnostics = append(p.Diagnostics, d)
		}
	}
}

// readUnitFlags returns the flags of a unit in their order. A unit that starts another program, such as a shell, is an
// error. An environment file that cannot be read has none: the plan reports it.
func readUnitFlags(root nodefile.Root, unit string, planned map[string][]byte) (out []flagSource, err error) {
	u, err := systemd.ReadPlannedUnit(root, unit, planned)
	if err != nil || u.Masked {
		return nil, err
	}
	start := u.Unit(kubelet.Argv)
	switch {
	case len(start.Command) == 0:
		return nil, nil
	case path.Base(start.Command[0]) != "kubelet":
		return nil, fmt.Errorf("it starts %s, not the kubelet itself", start.Command[0])
	}

	variables := map[string]flagSource{}
	for _, v := range start.Environment {
		name, text, _ := strings.Cut(v, "=")
		if flags, err := kubelet.ParseFlags(text); err == nil {
			variables[name] = flagSource{unit, flags}
		}
	}
	for _, f := range start.EnvironmentFiles {
		for _, file := range systemd.Glob(root, f.Path) {
			env, err := kubelet.ParseEnvFile(readPlanned(root, file, planned))
			if err != nil {
				continue
			}
			for _, name := range env.Names() {
				flags, _ := env.Get(name)
				variables[name] = flagSource{file, flags}
			}
		}
	}
	for _, line := range u.Settings["UnsetEnvironment"] {
		for _, name := range kubelet.Argv(line) {
			delete(variables, name)
		}
	}

	var own []string // words between variables
	end := func() {
		out = append(out, flagSource{unit, kubelet.FlagsOf(own)})
		own = nil
	}
	for _, word := range start.Command[1:] {
		name, isVariable := strings.CutPrefix(word, "$")
		if !isVariable {
			own = append(own, expand(word, variables))
			continue
		}
		end()
		if s, ok := variables[strings.Trim(name, "{}")]; ok {
			out = append(out, s)
		}
	}
	end()

	return out, nil
}

// readPlanned returns the text of a file as it will be; "" for one that cannot be read.
func readPlanned(root nodefile.Root, file string, planned map[string][]byte) string {
	if text, isPlanned := planned[file]; isPlanned {
		return string(text)
	}

	return root.TextIfReadable(file)
}

// expand replaces ${NAME} in a word, as systemd does.
func expand(word string, variables map[string]flagSource) string {
	return regexp.MustCompile(`\$\{\w+\}`).ReplaceAllStringFunc(word, func(name string) string {
		s, ok := variables[strings.Trim(name, "${}")]
		if !ok {
			return ""
		}

		return strings.Join(s.flags.Argv(), " ")
	})
}
