package unitfile

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// need is a setting of [Service] without whose path, user or group systemd does not start a unit.
type need struct {
	name     string
	status   int32 // with which the start fails; 0: the result is "resources", before any process
	what     kind
	isInside bool // the path is looked up among the mounts of the unit
}

type kind int

const (
	onePath   kind = iota // of several lines the last counts
	listPaths             // words
	bindPaths             // words, SOURCE:…
	idPath                // ID:PATH
	program               // a command: the file of its first word
	user
	group
)

// needs are the settings that are checked (systemd.exec(5), systemd.service(5); exec_child() in src/core/execute.c).
var needs = []need{
	{"EnvironmentFile", 0, listPaths, false},
	{"User", 217, user, false},
	{"Group", 216, group, false},
	{"LoadCredential", 243, idPath, false},
	{"LoadCredentialEncrypted", 243, idPath, false},
	{"BindPaths", 226, bindPaths, false},
	{"BindReadOnlyPaths", 226, bindPaths, false},
	{"ReadWritePaths", 226, listPaths, true},
	{"ReadOnlyPaths", 226, listPaths, true},
	{"InaccessiblePaths", 226, listPaths, true},
	{"ExecPaths", 226, listPaths, true},
	{"NoExecPaths", 226, listPaths, true},
	{"WorkingDirectory", 200, onePath, true},
	{"ExecCondition", StatusExec, program, true},
	{"ExecStartPre", StatusExec, program, true},
	{"ExecStartPost", StatusExec, program, true},
}

// ownFolders are the settings that name folders which systemd makes for a unit, and what they are below.
var ownFolders = map[string]string{
	"RuntimeDirectory": "/run", "StateDirectory": "/var/lib", "CacheDirectory": "/var/cache",
	"LogsDirectory": "/var/log", "ConfigurationDirectory": "/etc",
}

// remounts are settings that put other files at paths of a unit.
var remounts = []string{
	"BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "MountImages", "ExtensionImages", "ExtensionDirectories",
}

// Missing is something that a unit needs to start and that does not exist.
type Missing struct {
	Path string // or the name of a user or a group
	Why  string // with the setting and its file
}

// FindMissing returns the first file, user or group of this machine that the next start of a running unit will lack;
// the zero value if none is known. isPlanned returns whether a commit brings a file at or below a path; nil for no
// commit. For a unit that does not run, only its program counts: earlier units of the boot may still bring the others.
func (u Unit) FindMissing(isPlanned func(string) bool) Missing {
	isBrought := func(p string) bool { return isPlanned != nil && isPlanned(p) }
	if why := u.whyNoProgram(); why != "" && !isBrought(u.Program) {
		return Missing{u.Program, why}
	}
	if u.Active != "active" {
		return Missing{}
	}

	return u.findNeeds(isBrought, func(need) bool { return true })
}

// whyFailed returns why the last start of a unit failed before its program: the missing file, user or group; "" if it
// is unknown.
func (u Unit) whyFailed() string {
	switch {
	case u.NotStarted() == "" && u.Result != "resources":
		return ""
	case u.NotStarted() != "" && u.Status == StatusExec:
		return u.whyNoProgram()
	}

	status := u.Status
	if u.Result == "resources" {
		status = 0
	}
	isOf := func(n need) bool { return n.status == status }

	return u.findNeeds(func(string) bool { return false }, isOf).Why
}

// CannotStart reports whether something that was missing at the last start is missing still.
func (u Unit) CannotStart() bool { return u.NotStarted() != "" && u.whyFailed() != "" }

// readSettings returns the values of [Service] in the files of a unit.
func (u Unit) readSettings() Settings {
	out := Settings{}
	for _, file := range u.Files {
		text, err := nodefile.ReadFile(file, maxFile)
		if err != nil {
			continue
		}
		for _, s := range Parse(string(text)) {
			out.Add(file, s)
		}
	}

	return out
}

const maxFile = 1 << 20 // bytes

// findNeeds returns the first missing thing of the settings that are selected.
func (u Unit) findNeeds(isBrought func(string) bool, isSelected func(need) bool) Missing {
	if u.Load != "loaded" || u.OtherRoot {
		return Missing{}
	}

	settings := u.readSettings()
	isRemounted := slices.ContainsFunc(remounts, func(name string) bool { return settings[name] != nil })
	for _, n := range needs {
		if !isSelected(n) || n.isInside && isRemounted {
			continue
		}
		for _, v := range n.choose(settings[n.name]) {
			for _, word := range n.split(v.Value) {
				if why := n.whyAbsent(word, settings); why != "" && !isBrought(word) {
					return Missing{word, why + " (" + n.name + "= in " + v.File + ")"}
				}
			}
		}
	}

	return Missing{}
}

// choose returns which values of the setting are checked.
func (n need) choose(values []Placed) []Placed {
	switch {
	case len(values) == 0:
		return nil
	case n.what == onePath, n.what == user, n.what == group:
		return values[len(values)-1:]
	case n.what == program: // it may bring the program of the next one
		return values[:1]
	}

	return values
}

// split returns the names in a value of the setting: paths, or a user or group. Names that are optional (-), that
// systemd looks up by itself, or that have a specifier (%) are left out.
func (n need) split(value string) (out []string) {
	words := strings.Fields(value)
	switch n.what {
	case program:
		words = words[:1]
	case idPath:
		_, value, _ = strings.Cut(value, ":")
		words = []string{value}
	case onePath, user, group:
		words = []string{value}
	}
	for _, word := range words {
		switch n.what {
		case program:
			rest := strings.TrimLeft(word, "-@:+!|")
			if strings.Contains(strings.TrimSuffix(word, rest), "-") {
				continue
			}
			word = rest
		case bindPaths:
			word, _, _ = strings.Cut(word, ":")
		case listPaths:
			word = strings.TrimPrefix(word, "+")
		}

		isName := n.what == user || n.what == group
		if !strings.ContainsAny(word, `%"'\*?[$`) && (isName || path.IsAbs(word) && path.Clean(word) != Gate) {
			out = append(out, word)
		}
	}

	return out
}

// whyAbsent returns that something does not exist; "" if it does, or if that is not known.
func (n need) whyAbsent(word string, settings Settings) string {
	root := nodefile.Root("")
	switch {
	case n.what == user || n.what == group:
		return n.whyUnknownName(word, settings)
	case isHidden(word) || isOwn(word, settings):
		return ""
	case n.what == program:
		return root.WhyNotExecutable(word)
	case n.what == idPath && (settings["SetCredential"] != nil || settings["SetCredentialEncrypted"] != nil):
		return "" // that may be its default
	}

	look, err := root.Look(word, nodefile.FollowAll)
	if errors.Is(err, fs.ErrNotExist) {
		return word + " does not exist"
	}
	if err == nil {
		look.Close()
	}

	return ""
}

// whyUnknownName returns that a user or a group does not exist. Names of other sources than /etc/passwd are not known.
func (n need) whyUnknownName(name string, settings Settings) string {
	root := nodefile.Root("")
	what, file, database := "user ", nodefile.Users, "passwd:"
	if n.what == group {
		what, file, database = "group ", nodefile.Groups, "group:"
	}

	for line := range strings.Lines(root.TextIfReadable("/etc/nsswitch.conf")) {
		words := strings.Fields(line)
		isOther := func(source string) bool { return source != "files" && source != "systemd" && source != "compat" }
		if len(words) > 0 && words[0] == database && slices.ContainsFunc(words[1:], isOther) {
			return ""
		}
	}
	hasRecords := slices.ContainsFunc([]string{"/etc/userdb", "/run/userdb", "/usr/lib/userdb"}, func(dir string) bool {
		names, err := root.Names(dir, 1)

		return err == nil && len(names) > 0
	})
	_, err := root.FindID(file, name)
	if err == nil || hasRecords || settings["DynamicUser"] != nil {
		return ""
	}

	return what + name + ": " + err.Error()
}

// isOwn reports whether a path is at or below a folder that systemd makes for the unit.
func isOwn(p string, settings Settings) bool {
	isBetween := func(r rune) bool { return r == ' ' || r == '\t' || r == ':' }
	for name, above := range ownFolders {
		for _, v := range settings[name] {
			for _, word := range strings.FieldsFunc(v.Value, isBetween) {
				folder := path.Join(above, word)
				if strings.ContainsAny(word, `%"'\`) {
					folder = above
				}
				if p == folder || strings.HasPrefix(p, folder+"/") {
					return true
				}
			}
		}
	}

	return false
}
