package probe

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// Units returns the state of a unit of systemd.
type Units interface {
	Look(ctx context.Context, name string) (systemd.Unit, error)
}

// answerOwner reports whether a user and a group exist.
func (l *Live) answerOwner(_ context.Context, r tape.OwnerReq) tape.Answer {
	if l.o.Hardware != "" {
		return tape.Failure(fault.Unread, "the users of another machine are unknown", "")
	}

	if _, _, err := l.root().FindOwner(r.Owner); err != nil {
		return tape.Failure(fault.Absent, err.Error(), "")
	}

	return tape.Owner.Answer(tape.OwnerAns{})
}

// answerUnit returns the state of a unit. Below another root no unit runs, and no unit restricts prelet's writes;
// whether one exists, and how it would start, is read from its files.
func (l *Live) answerUnit(ctx context.Context, r tape.UnitReq) tape.Answer {
	if l.o.Root != "" {
		return l.answerUnitFile(r)
	}
	if l.isOtherMachine() || l.o.Units == nil {
		return tape.Failure(fault.Systemd, "systemd of this node is not available", "")
	}

	u, err := l.o.Units.Look(ctx, r.Name)
	if err != nil {
		return tape.Failure(fault.Systemd, err.Error(), "")
	}

	out := describeUnit(u)
	if r.Start {
		u = locate(u)
	}
	if u.Load == "bad-setting" || u.Load == "error" {
		out.Refused = u.Refusal
	}
	if r.Start && u.Load == "loaded" && len(u.Command) > 0 {
		out.Start = l.describeStart(u.Definition)
		missing := u.FindMissing(nil)
		out.Start.Broken, out.Start.Missing = missing.Why, missing.Path
	}

	return tape.Unit.Answer(out)
}

// locate adds to a unit the places of its command line, as far as systemd has read the files that are there now, and
// why it refuses them.
func locate(u systemd.Unit) systemd.Unit {
	files := systemd.ReadListedUnit(u)
	isLoaded := files.Load == "loaded"
	files.Load = "loaded"
	read := files.Define(kubelet.Argv)
	if !isLoaded {
		u.Refusal = cmp.Or(read.Refusal, u.Refusal)
	}
	if slices.Equal(read.Command, u.Command) {
		u.CommandAt, u.EnvironmentAt = read.CommandAt, read.EnvironmentAt
	}

	return u
}

// answerUnitFile returns whether a unit below another root exists, and how it would start. A root without units is not
// that of an image.
func (l *Live) answerUnitFile(r tape.UnitReq) tape.Answer {
	name, read := r.Name, l.unitFile
	if name != l.o.Unit {
		read = func() (systemd.UnitFile, error) { return systemd.ReadUnitFile(l.root(), name) }
	}

	u, err := read()
	if err != nil {
		return tape.Failure(fault.Systemd, name+" cannot be read: "+nodefile.Reason(err), "")
	}
	start := u.Define(kubelet.Argv)
	switch {
	case !r.Start && l.hasUnits():
		return tape.Unit.Answer(tape.UnitAns{Load: u.Load})
	case u.Load == "loaded" && len(start.Command) > 0:
		out := tape.UnitAns{Load: start.Load, Refused: start.Refusal, Start: l.describeStart(start)}
		if out.Start.Broken = start.WhyNoProgram(l.root()); out.Start.Broken != "" {
			out.Start.Missing = start.Program
		}

		return tape.Unit.Answer(out)
	case u.Load == "loaded" && start.Refusal != "":
		return tape.Unit.Answer(tape.UnitAns{Load: start.Load, Refused: start.Refusal})
	}

	return tape.Failure(fault.Systemd, name+" is not in this image", "")
}

// hasUnits reports whether the root has the folder in which packages install units.
func (l *Live) hasUnits() bool {
	look, err := l.root().Look("/usr/lib/systemd/system", nodefile.FollowAll)
	if err != nil {
		return false
	}
	look.Close()

	return true
}

// describeUnit returns the properties of a unit that a plan needs.
func describeUnit(u systemd.Unit) tape.UnitAns {
	out := tape.UnitAns{
		Load:     u.Load,
		Strict:   u.ProtectSystem == "strict",
		Writable: u.Writable,
	}
	if u.Load == "loaded" && (u.NoStart || u.NoStop) {
		out.Refuses = []string{"restart"}
		if !u.CanReload { // then a reload is a restart
			out.Refuses = append(out.Refuses, "reload")
		}
	}

	return out
}

// describeStart returns how a unit starts its process. A variable may contain a secret, so only the values that
// become words of the command line are returned, which every user can read, without those of secret flags.
func (l *Live) describeStart(u unitfile.Definition) *tape.StartAns {
	show := func(name, text string) (*string, bool) { return showVariable(u.Command, name, text) }
	out := StartReader{Root: l.root(), Read: l.originalText, Show: show}.Describe(u)
	out.Words = kubelet.HideSecretWords(u.Command)

	return out
}

// StartReader reads how units start their processes.
type StartReader struct {
	Root nodefile.Root
	Read func(file string) (string, error) // the text of an environment file
	// Show returns the value of a variable that is wanted; nil if it must not be shown.
	Show func(name, text string) (shown *string, isWanted bool)
}

// Describe returns how a unit starts its process.
func (r StartReader) Describe(u unitfile.Definition) *tape.StartAns {
	out := &tape.StartAns{
		Words:          u.Command,
		At:             u.CommandAt,
		Literal:        u.Literal,
		Folder:         u.Folder,
		Vars:           map[string]string{},
		WatchdogMicros: u.Watchdog.Microseconds(),
	}
	for _, name := range u.Names {
		if name != u.Name {
			out.Aliases = append(out.Aliases, name)
		}
	}

	last := map[string]int{} // the place of each variable: a later one replaces an earlier one
	for i, variable := range u.Environment {
		name, _, _ := strings.Cut(variable, "=")
		last[name] = i
	}
	for i, variable := range u.Environment {
		name, text, _ := strings.Cut(variable, "=")
		if last[name] != i || text == "" || isUnset(u, name, text) {
			continue
		}
		out.Sets = append(out.Sets, name)
		if shown, _ := r.Show(name, text); shown != nil {
			out.Vars[name] = *shown
			if at := u.EnvironmentAt[name]; at != "" {
				if out.VarsAt == nil {
					out.VarsAt = map[string]string{}
				}
				out.VarsAt[name] = at
			}
		}
	}
	for _, unset := range u.Unset {
		name, text, hasValue := strings.Cut(unset, "=")
		if shown, _ := r.Show(name, text); !hasValue || shown != nil && *shown == text {
			out.Unset = append(out.Unset, unset)
		}
	}
	r.addFiles(out, u)

	return out
}

// addFiles adds the environment files of a unit, and the wanted variables of each.
func (r StartReader) addFiles(out *tape.StartAns, u unitfile.Definition) {
	for _, f := range u.EnvironmentFiles {
		files := systemd.Glob(r.Root, f.Path)
		if !slices.Contains(files, f.Path) { // a pattern, whose files may come later
			files = append([]string{f.Path}, files...)
		}
		for _, file := range files {
			out.Files = append(out.Files, file)
			text, err := r.Read(file)
			if err != nil && fault.CodeOf(err) != fault.Absent {
				continue
			}
			if out.Read == nil {
				out.Read = map[string]map[string]*string{}
			}
			out.Read[file] = map[string]*string{}
			env, err := kubelet.ParseEnvFile(text)
			if err != nil { // systemd ignores it
				continue
			}
			for name, text := range env.Variables() {
				if shown, isWanted := r.Show(name, *text); isWanted {
					out.Read[file][name] = shown
				}
			}
		}
	}
}

// isUnset reports whether a unit removes a variable with a value.
func isUnset(u unitfile.Definition, name, text string) bool {
	return slices.Contains(u.Unset, name) || slices.Contains(u.Unset, name+"="+text)
}

// originalText returns the text of a file as it is without prelet.
func (l *Live) originalText(file string) (string, error) {
	if l.o.Store != nil {
		if _, content, exists, err := l.o.Store.Original(file); err != nil || exists {
			return string(content), err
		}
	}
	text, f := l.root().Text(file)
	if f != nil {
		return "", f
	}

	return text, nil
}

// showVariable returns the value of a variable without those of secret flags, and whether words of a command line name
// it; nil if it may be a secret.
func showVariable(words []string, name, text string) (shown *string, isNamed bool) {
	isSecret := false
	for i, word := range words {
		isWhole := word == "$"+name
		if !isWhole && !strings.Contains(word, "${"+name+"}") {
			continue
		}
		isNamed = true
		flag, _, _ := strings.Cut(word, "=")
		isSecret = isSecret || secret.IsSetting(kubelet.FlagName(flag)) ||
			i > 0 && secret.IsSetting(kubelet.FlagName(words[i-1]))
	}
	if !isNamed || isSecret {
		return nil, isNamed
	}
	text = kubelet.HideSecretFlags(text)
	if secret.HideEvident(text) != text {
		return nil, true
	}

	return &text, true
}
