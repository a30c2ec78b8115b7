package app

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
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
	sources := readImageFlags(nodefile.Root(w.Root), unit)

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

// readImageFlags returns the flags of a unit in their order; none for a unit that starts another program. A file that
// cannot be read has none: the plan reports it.
func readImageFlags(root nodefile.Root, unit string) (out []flagSource) {
	u, err := systemd.ReadUnitFile(root, unit)
	if err != nil || u.Masked {
		return nil
	}
	start := u.Unit(kubelet.Argv)
	if len(start.Command) == 0 || path.Base(start.Command[0]) != "kubelet" {
		return nil
	}

	variables := map[string]flagSource{}
	for _, v := range start.Environment {
		name, text, _ := strings.Cut(v, "=")
		if flags, err := kubelet.ParseFlags(text); err == nil {
			variables[name] = flagSource{unit, flags}
		}
	}
	for _, f := range start.EnvironmentFiles {
		env, err := kubelet.ParseEnvFile(root.TextIfReadable(f.Path))
		if err != nil {
			continue
		}
		for _, name := range env.Names() {
			flags, _ := env.Get(name)
			variables[name] = flagSource{f.Path, flags}
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
			own = append(own, word)
			continue
		}
		end()
		if s, ok := variables[strings.Trim(name, "{}")]; ok {
			out = append(out, s)
		}
	}
	end()

	return out
}
