package write

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// inherit adds to the base what the kubelet gets before the flags that this stage writes: words of its unit, and flags
// in files that the unit reads.
func (r baseReader) inherit(base *node.Base, cfg schema.Body) hcl.Diagnostics {
	own, ownFile := "", layout(r.in).FlagsFile
	if b, ok := cfg.One("kubelet_flags"); ok {
		if !base.FlagsKnown {
			return nil
		}
		own, ownFile = flagsVariable.Of(b).V, flagsFile(b, r.in)
	}

	start, isKnown := r.chooseStart(ownFile)
	files, denied := r.readVariables(*base, start.Files, own, ownFile)
	if denied != nil {
		base.FlagsKnown, base.Unread = false, append(base.Unread, "the kubelet's flags")

		return hcl.Diagnostics{origin.MayNotRead(cfg.Range, "the kubelet's flags", denied.Why)}
	}
	how := inheriting{hasTaints: base.TaintFlag, isKnown: isKnown}
	words := start.Words[1:]
	base.Inherited.Partly = r.in.Start != nil && (!isKnown || r.readsMore(start, ownFile))
	for i := 0; i < len(words); i++ {
		run := readRun(words[i:])
		if len(run) > 0 {
			addInherited(base, kubelet.FlagsOf(dropOpen(run)), inheritedFrom("the kubelet's unit"), how)
			i += len(run) - 1
			continue
		}

		name, isVariable := strings.CutPrefix(words[i], "$")
		name = strings.Trim(name, "{}")
		file, isOfFile := files[name]
		switch {
		case isVariable && name == own:
			how.isLate = true
		case isOfFile:
			addInherited(base, file.flags, inheritedFrom(file.path), how)
		case isVariable:
			if f, err := kubelet.ParseFlags(start.Vars[name]); err == nil {
				addInherited(base, f, inheritedFrom("the kubelet's unit"), how)
			}
		}
	}

	return nil
}

// readsMore reports whether a unit's words have variables, and it reads files of which this stage knows nothing.
func (r baseReader) readsMore(start world.StartAns, ownFile string) bool {
	known := []string{layout(r.in).KubeadmFlagsFile, ownFile, "/run/prelet/kubelet.env"}
	isOther := func(file string) bool { return !slices.Contains(known, file) }

	return slices.ContainsFunc(start.Files, isOther) && len(readRun(start.Words)) < len(start.Words)
}

// readRun returns the words before the first one with a variable.
func readRun(words []string) []string {
	if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "$") }); i >= 0 {
		return words[:i]
	}

	return words
}

// dropOpen returns a run of words without a last flag whose value is in the variable behind it, or missing.
func dropOpen(run []string) []string {
	last := len(run) - 1
	f := kubelet.FlagsOf(run[last:])
	if strings.Contains(run[last], "=") || len(f.Names()) == 0 {
		return run
	}
	if text, _ := f.Lookup(f.Names()[0]); text != "" { // --v2, or one that needs none
		return run
	}

	return run[:last]
}

// chooseStart returns how the kubelet's unit starts it: as kubeadm's drop-in does where nobody knows, and where it starts
// another program.
func (r baseReader) chooseStart(flagsFile string) (start world.StartAns, isKnown bool) {
	if s := r.in.Start; s != nil && len(s.Words) > 0 && path.Base(s.Words[0]) == "kubelet" {
		return *s, true
	}

	l := layout(r.in)

	return world.StartAns{
		Words: []string{"kubelet", "$" + l.KubeadmFlagsVariable, "$" + l.FlagsVariable},
		Files: []string{l.KubeadmFlagsFile, flagsFile},
	}, false
}

// flagsOfFile are the flags in a variable of an environment file.
type flagsOfFile struct {
	flags *kubelet.Flags
	path  string
}

// readVariables returns the variables of kubeadm's file and of the flags file, of which the last one that a unit reads
// counts. Others may hold secrets. One that is not there, or that systemd cannot read, has none; so has one that a
// recording was never asked for. denied is why this user may not read one.
func (r baseReader) readVariables(base node.Base, files []string, own, ownFile string) (
	out map[string]flagsOfFile, denied *fault.Fault,
) {
	out = map[string]flagsOfFile{}
	for _, p := range files {
		var env *kubelet.EnvFile
		if read, ok := base.FlagsFile.(flagsRead); ok && p == ownFile && own != "" {
			env = read.EnvFile
		} else if slices.Contains([]string{layout(r.in).KubeadmFlagsFile, ownFile}, p) {
			a, err := r.original(p)
			if f := (*fault.Fault)(nil); errors.As(err, &f) && f.Code == fault.Denied {
				return nil, f
			}
			if err != nil || !a.Exists {
				continue
			}
			if env, err = kubelet.ParseEnvFile(a.Text); err != nil {
				continue
			}
		} else {
			continue
		}

		for _, name := range env.Names() {
			f, _ := env.Get(name)
			out[name] = flagsOfFile{f, p}
		}
	}

	return out, nil
}

// inheriting is how a kubelet inherits flags.
type inheriting struct {
	hasTaints bool // of its own flags file, which wins over earlier ones
	isKnown   bool // that it gets them
	isLate    bool // behind those of its own flags file
}

// inheritedFrom returns the origin of what is in a file or a unit that is not the site's.
func inheritedFrom(where string) origin.Origin {
	return origin.Origin{Kind: origin.Base, Role: origin.Value, Ref: where}
}

// addInherited adds flags to what a base inherits. Its own flag for taints wins over one that it inherits. Where it is not
// known that the kubelet gets them, taints stay where they are without that flag.
func addInherited(base *node.Base, flags *kubelet.Flags, where origin.Origin, how inheriting) {
	from := []origin.Origin{where}
	in := &base.Inherited
	for _, name := range flags.Names() {
		text, _ := flags.Lookup(name)
		switch name {
		case "kubeconfig", "bootstrap-kubeconfig": // of each unit
		case "config":
			if how.isKnown {
				in.ConfigFile = text
			}
		case nodeLabels:
			labels, _ := kubelet.ParseLabels(text)
			for _, l := range labels {
				one := node.Label{Key: l.Key, Value: l.Value, Inherited: true, Late: how.isLate, Origins: from}
				in.Labels = slices.DeleteFunc(in.Labels, func(o node.Label) bool { return o.Key == l.Key })
				in.Labels = append(in.Labels, one)
			}
		case taintFlag:
			if how.hasTaints && !how.isLate {
				continue
			}
			into := &in.Taints
			if how.isKnown {
				base.TaintFlag, into = true, &base.Taints
			}
			*into = nil
			taints, _ := kubelet.ParseTaints(text)
			for _, t := range taints {
				one := node.Taint{
					Key: t.Key, Value: t.Value, Effect: t.Effect, Inherited: true, Late: how.isLate, Origins: from,
				}
				*into = append(*into, one)
			}
		default:
			one := node.Flag{
				Name: name, Value: text, Inherited: true, Assumed: !how.isKnown, Late: how.isLate, Origins: from,
			}
			i := slices.IndexFunc(in.Flags, func(o node.Flag) bool { return o.Name == name })
			if i < 0 {
				in.Flags = append(in.Flags, one)
				continue
			}
			one.Value = kubelet.JoinFlag(name, in.Flags[i].Value, text)
			in.Flags[i] = one
		}
	}
}

// inheritFromFiles returns what the kubelet inherits once the `file` blocks of this stage are there; nil where none of
// them is kubeadm's file, or a flags file that the site writes itself.
func inheritFromFiles(cfg schema.Body, in stages.Inputs) *node.Contribution {
	l := layout(in)
	variables := map[string]string{l.KubeadmFlagsFile: l.KubeadmFlagsVariable}
	if _, ok := cfg.One("kubelet_flags"); !ok {
		variables[l.FlagsFile] = l.FlagsVariable
	}

	base := node.Base{Inherited: in.Base.Inherited}
	_, isKnown := baseReader{in: in}.chooseStart("")
	isReplaced := false
	for _, b := range cfg.Blocks["file"] {
		file := filePath.Of(b).V
		content, secrets, _ := value.Plain(fileContent.Of(b).Cty)
		if variables[file] == "" || b.Undecided || createOnly.Of(b).V || len(secrets) > 0 ||
			!content.IsKnown() || content.IsNull() || content.Type() != cty.String {
			continue
		}
		env, err := kubelet.ParseEnvFile(content.AsString())
		if err != nil {
			continue
		}

		isReplaced = true
		all := &base.Inherited
		all.Flags = slices.DeleteFunc(slices.Clone(all.Flags), func(f node.Flag) bool { return f.Origins[0].Ref == file })
		all.Labels = slices.DeleteFunc(slices.Clone(all.Labels), func(l node.Label) bool { return l.Origins[0].Ref == file })
		if flags, ok := env.Get(variables[file]); ok {
			from := inheritedFrom(file)
			from.Range = fileContent.Of(b).Range
			addInherited(&base, flags, from, inheriting{in.Base.TaintFlag, isKnown, false})
		}
	}
	if !isReplaced {
		return nil
	}

	return &base.Inherited
}
