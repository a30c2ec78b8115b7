package write

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/platform/unitfile"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// collectInherited adds to the base the flags that the kubelet gets in addition to the flags that this stage
// writes: from the command line of its unit, and from files that the unit reads.
func (r *baseReader) collectInherited(base *desired.Base, cfg schema.Body) {
	how := newInheriting(cfg, r.in)
	if _, hasFlags := cfg.One("kubelet_flags"); hasFlags && !base.FlagsKnown {
		return
	}

	files, diags, denied := r.readVariables(*base, how, cfg.Range)
	if denied != nil {
		base.FlagsKnown = false
		r.Report(origin.MayNotRead(cfg.Range, "the kubelet's flags", denied.Why))

		return
	}
	r.Report(diags...)
	base.EnvFiles = files
	how.hasTaints = base.TaintFlag
	how.addTo(base, files)
}

// inheriting describes how a kubelet inherits flags.
type inheriting struct {
	start     tape.StartAns
	isUnknown bool // nothing is known about its unit, as in a check
	isKnown   bool // it is certain that the kubelet gets them
	known     []string
	own       string // the variable of the flags file; "" if this stage does not write it
	ownFile   string
	ranges    map[string]hcl.Range // of the contents of files that a site writes
	hasTaints bool                 // its own flags file has taints, which override earlier ones
	isLate    bool                 // behind those of its own flags file
}

func newInheriting(cfg schema.Body, in stages.Inputs) inheriting {
	layout := chooseLayout(in)
	how := inheriting{ownFile: layout.FlagsFile, isUnknown: in.Start == nil}
	if b, ok := cfg.One("kubelet_flags"); ok {
		how.own = flagsVariable.Of(b).V
		how.ownFile = flagsTarget(b, in)
	}
	how.known = []string{layout.KubeadmFlagsFile, how.ownFile}
	how.start, how.isKnown = chooseStart(in, how.ownFile)

	return how
}

// addTo adds to a base the flags and settings that the kubelet inherits, with these environment files.
func (how inheriting) addTo(base *desired.Base, files map[string]*kubelet.EnvFile) {
	environment := how.makeEnvironment(files, "")
	words := how.start.Words[1:]
	line := desired.CommandLine{Assumed: !how.isKnown, IsKnown: how.isKnown, Folder: how.start.Folder}
	if how.own != "" && slices.Contains(how.start.Files, how.ownFile) {
		written := how.makeEnvironment(files, how.own)
		if from := written.From(how.own); from != how.ownFile {
			line.OverriddenBy = cmp.Or(from, "UnsetEnvironment= in its unit")
			how.own = ""
		}
	}
	own := kubelet.Word{Open: true} // the words of the flags file, whose last may be a flag that takes the next one
	between := []kubelet.Word{own}
	isUnset := false
	if how.own != "" && !how.start.Literal {
		line.Hidden = environment.Expand([]string{"$" + how.own})
		f := files[how.ownFile]
		isUnset = f == nil || !slices.Contains(f.Names(), how.own)
		if f != nil && isUnset {
			between = line.Hidden
		}
		environment.Set(how.own, kubelet.Word{From: how.ownFile, Open: true})
	}
	isOwn := func(word string) bool {
		return how.own != "" && !how.start.Literal && (word == "$"+how.own || word == "${"+how.own+"}")
	}
	before, after := words, []string(nil)
	if i := slices.IndexFunc(words, isOwn); i >= 0 {
		before, after = words[:i], words[i+1:]
		line.IsPassed = how.isKnown && slices.Contains(how.start.Files, how.ownFile)
		line.AsOne = words[i] != "$"+how.own
	}
	line.Before = environment.Expand(before)
	line.After = environment.Expand(after)

	base.Inherited.Partly = !how.isUnknown && (!how.isKnown || environment.IsPartly() && hasVariable(words))
	base.Inherited.Line = line
	if isUnset && len(line.Hidden) > 0 {
		all := desired.Base{}
		how.addFlags(&all, slices.Concat(line.Before, line.Hidden, line.After))
		base.Inherited.IfUnset = &all.Inherited
	}
	how.addFlags(base, append(slices.Clip(line.Before), own))
	how.isLate = true
	how.addFlags(base, listLate(between, line.After))
}

// listLate returns the words after those of the flags file: without the first one if a flag there takes it.
func listLate(between, after []kubelet.Word) []kubelet.Word {
	own := kubelet.FlagsOf(between).Uses()
	if n := len(own); n > 0 && own[n-1].NoValue && len(after) > 0 && !after[0].Open {
		return after[1:]
	}

	return append([]kubelet.Word{{Open: true}}, after...)
}

// makeEnvironment returns the variables of the unit. A value that is not part of a recording, such as a possible
// secret, is unknown. The known files have questions of their own. The flags file sets own, unless it is "".
func (how inheriting) makeEnvironment(files map[string]*kubelet.EnvFile, own string) kubelet.Environment {
	start := how.start
	start.Read = map[string]map[string]*string{unitfile.Gate: nil}
	maps.Copy(start.Read, how.start.Read)
	for _, file := range how.known {
		start.Read[file] = nil
	}
	for file, f := range files {
		if f != nil {
			start.Read[file] = f.Variables()
		}
	}
	if own != "" {
		start.Read[how.ownFile] = map[string]*string{own: nil}
	}

	return kubelet.NewEnvironment(start)
}

func hasVariable(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(w, "$")
	})
}

// addFlags adds the flags of words, each from its place.
func (how inheriting) addFlags(base *desired.Base, words []kubelet.Word) {
	for _, flags := range kubelet.FlagsOf(words).BySource() {
		where := inheritedFrom(flags.From())
		where.Range = how.ranges[where.Ref]
		addInherited(base, flags, where, how)
	}
}

// chooseStart returns how the kubelet's unit starts it. If that is not known, or the unit starts another program,
// it returns the start of kubeadm's drop-in.
func chooseStart(in stages.Inputs, flagsFile string) (start tape.StartAns, isKnown bool) {
	if startsKubelet(in.Start) {
		return *in.Start, true
	}

	l := chooseLayout(in)
	return tape.StartAns{
		Words: []string{"kubelet", "$" + l.KubeadmFlagsVariable, "$" + l.FlagsVariable},
		Files: []string{l.KubeadmFlagsFile, flagsFile},
	}, false
}

// startsKubelet reports whether a unit is known to start the kubelet.
func startsKubelet(s *tape.StartAns) bool {
	return s != nil && len(s.Words) > 0 && path.Base(s.Words[0]) == "kubelet"
}

// readVariables returns kubeadm's file and the flags file, as far as the kubelet's unit reads them. Other files are not
// read, since they may contain secrets. A file that is missing or malformed, or that a recording does not have, has no
// variables. denied is why this user may not read one.
func (r *baseReader) readVariables(base desired.Base, how inheriting, at hcl.Range) (
	out map[string]*kubelet.EnvFile, diags hcl.Diagnostics, denied *fault.Fault,
) {
	out = map[string]*kubelet.EnvFile{}
	for _, p := range how.start.Files {
		if read, ok := base.FlagsFile.(flagsRead); ok && p == how.ownFile && how.own != "" {
			out[p] = read.EnvFile
			continue
		}
		if !slices.Contains(how.known, p) {
			continue
		}
		env, err := r.readEnvFile(p)
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
		out[p] = env
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
// does not contain it. It fails with a *fault.Fault if this user may not read it, and for a malformed file, such as
// text that is not UTF-8.
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

// inheritedFrom returns the origin of flags in a file or a unit that is not the site's.
func inheritedFrom(where string) origin.Origin {
	return origin.Origin{Kind: origin.Base, Role: origin.Value, Ref: where}
}

// addInherited adds flags to the flags that a base inherits. The base's own flag for taints overrides an inherited one.
// If it is not known whether the kubelet gets them, they do not decide where taints are written.
func addInherited(base *desired.Base, flags *kubelet.Flags, where origin.Origin, how inheriting) {
	c, _ := desired.SplitFlags(flags, []origin.Origin{where}) // the kubelet's rules report an invalid list
	in := &base.Inherited
	for _, l := range c.Labels {
		l.Inherited = true
		l.Late = how.isLate
		in.Labels = slices.DeleteFunc(in.Labels, func(o desired.Label) bool {
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
				in.ConfigFile = kubelet.FlagPath(how.start.Folder, f.Value)
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
func joinInherited(all []desired.Flag, f desired.Flag) []desired.Flag {
	i := slices.IndexFunc(all, func(o desired.Flag) bool {
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

func addInheritedTaints(base *desired.Base, taints []desired.Taint, how inheriting) {
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
// written; nil if none of them is an environment file of the kubelet's unit.
func collectFromFiles(cfg schema.Body, in stages.Inputs) *desired.Contribution {
	how := newInheriting(cfg, in)
	how.hasTaints = in.Base.TaintFlag
	how.ranges = map[string]hcl.Range{}
	files := maps.Clone(in.Base.EnvFiles)

	for _, b := range cfg.Blocks["file"] {
		file := filePath.Of(b).V
		content := fileContent.Of(b).Cty
		isRead := slices.Contains(how.known, file) || slices.Contains(how.start.Files, file)
		isInherited := isRead && (file != how.ownFile || how.own == "")
		if !isInherited || b.Undecided || createOnly.Of(b).V || !value.IsText(content) {
			continue
		}
		env, err := kubelet.ParseEnvFile(content.AsString())
		if err != nil {
			continue
		}
		if files == nil {
			files = map[string]*kubelet.EnvFile{}
		}
		files[file] = env
		how.ranges[file] = fileContent.Of(b).Range
	}
	if len(how.ranges) == 0 {
		return nil
	}

	base := desired.Base{}
	how.addTo(&base, files)

	return &base.Inherited
}
