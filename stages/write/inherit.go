package write

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// collectInherited adds to the base the flags that the kubelet gets in addition to the flags that this stage
// writes: from the command line of its unit, and from files that the unit reads.
func (r *baseReader) collectInherited(base *node.Base, cfg schema.Body) {
	own := ""
	ownFile := chooseLayout(r.in).FlagsFile
	if b, ok := cfg.One("kubelet_flags"); ok {
		if !base.FlagsKnown {
			return
		}
		own = flagsVariable.Of(b).V
		ownFile = flagsTarget(b, r.in)
	}

	start, isKnown := r.chooseStart(ownFile)
	files, diags, denied := r.readVariables(*base, start.Files, own, ownFile, cfg.Range)
	if denied != nil {
		base.FlagsKnown = false
		r.Report(origin.MayNotRead(cfg.Range, "the kubelet's flags", denied.Why))

		return
	}
	r.Report(diags...)
	base.Inherited.Partly = r.in.Start != nil && (!isKnown || r.readsMore(start, ownFile))

	how := inheriting{hasTaints: base.TaintFlag, isKnown: isKnown}
	words := start.Words[1:]
	for i := 0; i < len(words); i++ {
		run := findRun(words[i:])
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
			r.warnStray(file, name, cfg.Range)
			addInherited(base, file.flags, inheritedFrom(file.path), how)
		case isVariable:
			if f, err := kubelet.ParseFlags(start.Vars[name]); err == nil {
				addInherited(base, f, inheritedFrom("the kubelet's unit"), how)
			}
		}
	}
}

// warnStray warns of a word in kubeadm's file that is not a flag.
func (r *baseReader) warnStray(file flagsOfFile, variable string, at hcl.Range) {
	stray := file.flags.Stray()
	if len(stray) == 0 || file.path != chooseLayout(r.in).KubeadmFlagsFile {
		return
	}

	r.Warn(
		fault.FlagsInvalid, at, fmt.Sprintf("%q is not a flag", stray[0]),
		"%s: the kubelet refuses to start with it. Remove it from %s there; prelet does not write that file.",
		file.path, variable,
	)
}

// readsMore reports whether a unit's command line has variables, and the unit reads files that this stage does not
// read.
func (r *baseReader) readsMore(start world.StartAns, ownFile string) bool {
	known := []string{chooseLayout(r.in).KubeadmFlagsFile, ownFile, "/run/prelet/kubelet.env"}
	isOther := func(file string) bool {
		return !slices.Contains(known, file)
	}

	hasOther := slices.ContainsFunc(start.Files, isOther)

	return hasOther && len(findRun(start.Words)) < len(start.Words)
}

// findRun returns the words before the first one with a variable.
func findRun(words []string) []string {
	if i := slices.IndexFunc(words, func(w string) bool {
		return strings.Contains(w, "$")
	}); i >= 0 {
		return words[:i]
	}

	return words
}

// dropOpen returns a run of words without its last flag, if the value of that flag is in the next variable or
// missing.
func dropOpen(run []string) []string {
	last := len(run) - 1
	f := kubelet.FlagsOf(run[last:])
	if strings.Contains(run[last], "=") || len(f.Names()) == 0 {
		return run
	}
	if text, _ := f.Lookup(f.Names()[0]); text != "" { // -v2, or a flag without a value
		return run
	}

	return run[:last]
}

// chooseStart returns how the kubelet's unit starts it. If that is not known, or the unit starts another program,
// it returns the start of kubeadm's drop-in.
func (r *baseReader) chooseStart(flagsFile string) (start world.StartAns, isKnown bool) {
	if startsKubelet(r.in.Start) {
		return *r.in.Start, true
	}

	l := chooseLayout(r.in)
	return world.StartAns{
		Words: []string{"kubelet", "$" + l.KubeadmFlagsVariable, "$" + l.FlagsVariable},
		Files: []string{l.KubeadmFlagsFile, flagsFile},
	}, false
}

// startsKubelet reports whether a unit is known to start the kubelet.
func startsKubelet(s *world.StartAns) bool {
	return s != nil && len(s.Words) > 0 && path.Base(s.Words[0]) == "kubelet"
}

// flagsOfFile are the flags in a variable of an environment file.
type flagsOfFile struct {
	flags *kubelet.Flags
	path  string
}

// readVariables returns the variables of kubeadm's file and of the flags file, each from the last file that has it.
// Other files are not read, since they may contain secrets. A file that is missing or malformed, or that a
// recording does not have, has no variables. denied is why this user may not read one.
func (r *baseReader) readVariables(base node.Base, files []string, own, ownFile string, at hcl.Range) (
	out map[string]flagsOfFile, diags hcl.Diagnostics, denied *fault.Fault,
) {
	out = map[string]flagsOfFile{}
	for _, p := range files {
		var env *kubelet.EnvFile
		if read, ok := base.FlagsFile.(flagsRead); ok && p == ownFile && own != "" {
			env = read.EnvFile
		} else if p == chooseLayout(r.in).KubeadmFlagsFile || p == ownFile {
			var err error
			env, err = r.readEnvFile(p)
			if errors.As(err, &denied) && denied.Code == fault.Denied {
				return nil, nil, denied
			}
			denied = nil
			if err != nil {
				diags = append(diags, origin.Warning(
					fault.FlagsInvalid, at, "The kubelet gets no flags of "+p,
					"%s", stages.Sentence(nameFile(p, err), "systemd ignores such a file. Fix or remove it"),
				))
			}
		}
		if env == nil {
			continue
		}

		for _, name := range env.Names() {
			f, _ := env.Get(name)
			out[name] = flagsOfFile{f, p}
		}
	}

	return out, diags, nil
}

// nameFile returns the text of an error, with the file that it is about.
func nameFile(file string, err error) string {
	if strings.HasPrefix(err.Error(), file) {
		return err.Error()
	}

	return file + ": " + err.Error()
}

// readEnvFile returns an environment file of the node as it was before prelet; nil if it is missing or if a recording
// does not contain it. It fails with a *fault.Fault if this user may not read it, and for a malformed file, such as one
// that is not UTF-8.
func (r *baseReader) readEnvFile(p string) (*kubelet.EnvFile, error) {
	a, err := r.original(p)
	var f *fault.Fault
	switch isFault := errors.As(err, &f); {
	case isFault && (f.Code == fault.Denied || f.Code == fault.FileUnusable):
		return nil, f
	case err != nil || !a.Exists:
		return nil, nil
	}

	return kubelet.ParseEnvFile(a.Text)
}

// inheriting describes how a kubelet inherits flags.
type inheriting struct {
	hasTaints bool // its own flags file has taints, which override earlier ones
	isKnown   bool // it is certain that the kubelet gets them
	isLate    bool // behind those of its own flags file
}

// inheritedFrom returns the origin of flags in a file or a unit that is not the site's.
func inheritedFrom(where string) origin.Origin {
	return origin.Origin{Kind: origin.Base, Role: origin.Value, Ref: where}
}

// addInherited adds flags to the flags that a base inherits. The base's own flag for taints overrides an inherited one.
// If it is not known whether the kubelet gets them, they do not decide where taints are written.
func addInherited(base *node.Base, flags *kubelet.Flags, where origin.Origin, how inheriting) {
	c, _ := splitFlags(flags, []origin.Origin{where}) // the kubelet's rules report an invalid list
	in := &base.Inherited
	for _, l := range c.Labels {
		l.Inherited = true
		l.Late = how.isLate
		in.Labels = slices.DeleteFunc(in.Labels, func(o node.Label) bool {
			return o.Key == l.Key
		})
		in.Labels = append(in.Labels, l)
	}
	if _, hasTaints := flags.Lookup(taintFlag); hasTaints {
		addInheritedTaints(base, c.Taints, how)
	}
	for _, f := range c.Flags {
		switch f.Name {
		case "kubeconfig", "bootstrap-kubeconfig": // every unit sets them
		case "config":
			if how.isKnown {
				in.ConfigFile = f.Value
			}
		default:
			f.Inherited = true
			f.Assumed = !how.isKnown
			f.Late = how.isLate
			in.Flags = joinInherited(in.Flags, f)
		}
	}
}

// joinInherited adds a flag to inherited ones, which the kubelet gets before it.
func joinInherited(all []node.Flag, f node.Flag) []node.Flag {
	i := slices.IndexFunc(all, func(o node.Flag) bool {
		return o.Name == f.Name
	})
	if i < 0 {
		return append(all, f)
	}

	before := all[i]
	last := f.Value
	f.Value = kubelet.JoinFlag(f.Name, before.Value, last)
	f.Earlier = slices.Concat(before.Earlier, f.Earlier)
	if f.Value == last {
		f.Earlier = append(f.Earlier, before.Value)
	}
	all[i] = f

	return all
}

func addInheritedTaints(base *node.Base, taints []node.Taint, how inheriting) {
	if how.hasTaints && !how.isLate {
		return
	}
	into := &base.Inherited.Taints
	if how.isKnown {
		base.TaintFlag = true
		into = &base.Taints
	}

	*into = taints
	for i := range taints {
		taints[i].Inherited = true
		taints[i].Late = how.isLate
	}
}

// collectFromFiles returns the contribution that the kubelet inherits once the `file` blocks of this stage are
// written; nil if none of them is kubeadm's file, or a flags file that the site writes itself.
func collectFromFiles(cfg schema.Body, in stages.Inputs) *node.Contribution {
	l := chooseLayout(in)
	variables := map[string]string{l.KubeadmFlagsFile: l.KubeadmFlagsVariable}
	if _, ok := cfg.One("kubelet_flags"); !ok {
		variables[l.FlagsFile] = l.FlagsVariable
	}

	base := node.Base{Inherited: in.Base.Inherited}
	_, isKnown := (&baseReader{in: in}).chooseStart("")
	isReplaced := false
	for _, b := range cfg.Blocks["file"] {
		file := filePath.Of(b).V
		content := fileContent.Of(b).Cty
		if variables[file] == "" || b.Undecided || createOnly.Of(b).V || !value.IsText(content) {
			continue
		}
		env, err := kubelet.ParseEnvFile(content.AsString())
		if err != nil {
			continue
		}

		isReplaced = true
		all := &base.Inherited
		isFlagOfFile := func(f node.Flag) bool {
			return f.Origins[0].Ref == file
		}
		isLabelOfFile := func(l node.Label) bool {
			return l.Origins[0].Ref == file
		}
		all.Flags = slices.DeleteFunc(slices.Clone(all.Flags), isFlagOfFile)
		all.Labels = slices.DeleteFunc(slices.Clone(all.Labels), isLabelOfFile)
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
