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
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
)

// flagSource is a place with flags of the kubelet in an image.
type flagSource struct {
	name  string // for people
	flags *kubelet.Flags
}

// judgeImageFlags judges the flags with which an image starts its kubelet: those of its unit, of the unit's drop-ins
// and of its environment files.
func judgeImageFlags(w Where, unit string) hcl.Diagnostics {
	sources, err := readImageFlags(nodefile.Root(w.Root), unit)
	if err != nil {
		return hcl.Diagnostics{origin.Warning(fault.KubeletFlag, hcl.Range{},
			"The kubelet's flags of "+unit+" in this image are not checked",
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

// addImageFlags adds what is wrong with the flags of an image to a plan that does not say it itself.
func addImageFlags(p *boot.Plan, w Where, unit string) {
	for _, d := range judgeImageFlags(w, unit) {
		isSame := func(o *hcl.Diagnostic) bool { return o.Summary == d.Summary }
		if !slices.ContainsFunc(p.Diagnostics, isSame) {
			p.Diagnostics = append(p.Diagnostics, d)
		}
	}
}

// readImageFlags returns the flags of a unit in their order. A unit that starts another program, such as a shell, is an
// error. An environment file that cannot be read has none: the plan reports it.
func readImageFlags(root nodefile.Root, unit string) (out []flagSource, err error) {
	u, err := systemd.ReadUnitFile(root, unit)
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
			env, err := kubelet.ParseEnvFile(root.TextIfReadable(file))
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
