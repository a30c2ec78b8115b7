package systemd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// decode reads the D-Bus properties of a unit. A missing property leaves its field zero: a unit that does not exist
// or is not a service lacks most of them. A property with an unexpected type is an error, because a guess would judge
// the kubelet by a wrong number.
func decode(name string, properties map[string]any) (Unit, error) {
	r := reader{properties: properties}

	out := Unit{
		Definition: unitfile.Definition{
			Name:    name,
			Names:   read[[]string](&r, "Names"),
			Load:    read[string](&r, "LoadState"),
			File:    read[string](&r, "UnitFileState"),
			Service: readService(&r),
		},
		Description:   read[string](&r, "Description"),
		Files:         listFiles(&r),
		Unread:        read[bool](&r, "NeedDaemonReload"),
		ProtectSystem: read[string](&r, "ProtectSystem"),
		Writable:      read[[]string](&r, "ReadWritePaths"),
		Relations:     readRelations(&r),
		State:         readState(&r),
	}

	var refusal struct{ Name, Message string }
	r.store("LoadError", &refusal)
	out.Refusal = refusal.Message

	if out.Load == "" {
		r.fail(errors.New("LoadState is missing"))
	}

	return out, r.err
}

func readService(r *reader) unitfile.Service {
	out := unitfile.Service{
		Environment: read[[]string](r, "Environment"),
		Unset:       read[[]string](r, "UnsetEnvironment"),
		HasPre:      len(readCommands(r, "ExecStartPre")) > 0,
		Watchdog:    readWatchdog(r),
		Folder:      findFolder(read[string](r, "WorkingDirectory")),
		OtherRoot:   read[string](r, "RootDirectory") != "" || read[string](r, "RootImage") != "",
	}
	out.Program, out.Command, out.Literal = readCommand(r)
	r.store("EnvironmentFiles", &out.EnvironmentFiles) // a(sb)

	return out
}

func readRelations(r *reader) unitfile.Relations {
	return unitfile.Relations{
		NoStart:   isFalse(r, "CanStart"),
		NoStop:    isFalse(r, "CanStop"),
		CanReload: read[bool](r, "CanReload"),
		NeverWith: slices.Concat(read[[]string](r, "Conflicts"), read[[]string](r, "ConflictedBy")),
		FailsWith: slices.Concat(
			read[[]string](r, "Requires"),
			read[[]string](r, "Requisite"),
			read[[]string](r, "BindsTo"),
		),
		After: read[[]string](r, "After"),
	}
}

func readState(r *reader) unitfile.State {
	out := unitfile.State{
		Active:    read[string](r, "ActiveState"),
		Sub:       read[string](r, "SubState"),
		Result:    read[string](r, "Result"),
		Status:    read[int32](r, "ExecMainStatus"),
		MainPID:   read[uint32](r, "MainPID"),
		Restarts:  read[uint32](r, "NRestarts"),
		Since:     readTime(r, "InactiveExitTimestampMonotonic"),
		Started:   readTime(r, "ExecMainStartTimestampMonotonic"),
		Left:      readTime(r, "ActiveExitTimestampMonotonic"),
		NextStart: readNextStart(r),
		FailedPre: readFailedPre(r),
	}
	for _, check := range []string{"Condition", "Assert"} {
		if isFalse(r, check+"Result") {
			out.Skipped = max(out.Skipped, readTime(r, check+"TimestampMonotonic"))
		}
	}

	var job struct { // (uo); ID 0 means that no job is queued
		ID   uint32
		Path dbus.ObjectPath
	}
	r.store("Job", &job)
	out.Job = job.ID

	return out
}

// reader reads properties and keeps the first error.
type reader struct {
	properties map[string]any
	err        error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// read returns a property of a basic type.
func read[T any](r *reader, name string) T {
	value, present := r.properties[name]

	typed, ok := value.(T)
	if present && !ok {
		r.fail(fmt.Errorf("%s has type %T, want %T", name, value, typed))
	}

	return typed
}

// readTime returns a timestamp as the time since boot.
func readTime(r *reader, name string) time.Duration {
	return time.Duration(read[uint64](r, name)) * time.Microsecond
}

// readWatchdog returns WatchdogSec=, 0 for none. systemd has both 0 and its largest number for none.
func readWatchdog(r *reader) time.Duration {
	span := limitedDuration(read[uint64](r, "WatchdogUSec"))
	if span == math.MaxInt64 {
		return 0
	}

	return span
}

// limitedDuration returns a number of microseconds as a duration, or the longest one if it does not fit.
func limitedDuration(micros uint64) time.Duration {
	if micros > math.MaxInt64/uint64(time.Microsecond) {
		return math.MaxInt64
	}

	return time.Duration(micros) * time.Microsecond
}

// command is one line of ExecStart= or ExecStartPre=, and how it ended: a(sasbttttuii).
type command struct {
	Path                 string
	Words                []string
	Ignore               bool
	Started, StartedMono uint64
	Stopped, StoppedMono uint64
	PID                  uint32
	Code, Status         int32 // of waitid(2), 0 before the end
}

// extendedCommand is one line of ExecStartEx=: a(sasasttttuii).
type extendedCommand struct {
	Path                 string
	Words, Flags         []string
	Started, StartedMono uint64
	Stopped, StoppedMono uint64
	PID                  uint32
	Code, Status         int32
}

// readCommand returns the program of a unit's last ExecStart=, and its words, the program first. Variables in them are
// not expanded; isLiteral: systemd does not, either.
func readCommand(r *reader) (program string, words []string, isLiteral bool) {
	commands := readCommands(r, "ExecStart")
	if len(commands) == 0 {
		return "", nil, false
	}
	last := commands[len(commands)-1]
	var extended []extendedCommand
	r.store("ExecStartEx", &extended) // older versions of systemd lack it
	if n := len(extended); n > 0 {
		isLiteral = slices.Contains(extended[n-1].Flags, "no-env-expand")
	}

	return last.Path, last.Words, isLiteral
}

func readCommands(r *reader, name string) (out []command) {
	r.store(name, &out)

	return out
}

// readFailedPre returns the ExecStartPre= with which the last start of a unit failed.
func readFailedPre(r *reader) string {
	const exited = 1 // CLD_EXITED

	for _, c := range readCommands(r, "ExecStartPre") {
		switch {
		case c.Ignore, c.Code == 0, c.Code == exited && c.Status == 0:
		case c.Code == exited:
			return fmt.Sprintf("ExecStartPre=%s ended with status %d%s", c.Path, c.Status, findPre(r, c.Path))
		default:
			return fmt.Sprintf("ExecStartPre=%s was killed by signal %d%s", c.Path, c.Status, findPre(r, c.Path))
		}
	}

	return ""
}

// listFiles returns the file of a unit, if it has one, and its drop-ins.
func listFiles(r *reader) []string {
	dropIns := read[[]string](r, "DropInPaths")
	if own := read[string](r, "FragmentPath"); own != "" {
		return append([]string{own}, dropIns...)
	}

	return dropIns
}

// findPre returns the files of a unit with this program in an ExecStartPre=, in parentheses; "" if none can be read.
func findPre(r *reader, program string) string {
	var found []string
	for _, file := range listFiles(r) {
		text, err := nodefile.ReadFile(file, maxUnitFile)
		hasProgram := slices.ContainsFunc(unitfile.Parse(string(text)), func(s unitfile.Setting) bool {
			words := strings.Fields(strings.TrimLeft(s.Value, "@-:+!|"))

			return s.Section == "Service" && s.Name == "ExecStartPre" && len(words) > 0 &&
				(words[0] == program || path.Base(program) == words[0])
		})
		if err == nil && hasProgram {
			found = append(found, file)
		}
	}
	if len(found) == 0 {
		return ""
	}

	return " (in " + strings.Join(found, ", ") + ")"
}

// readNextStart returns when systemd starts a unit again that ended, 0 if it does not wait for that.
func readNextStart(r *reader) time.Duration {
	if !strings.HasPrefix(read[string](r, "SubState"), "auto-restart") {
		return 0
	}
	wait := limitedDuration(cmp.Or(read[uint64](r, "RestartUSecNext"), read[uint64](r, "RestartUSec")))
	began := readTime(r, "StateChangeTimestampMonotonic")

	return began + min(wait, math.MaxInt64-began)
}

// isFalse reports whether a property exists and is false.
func isFalse(r *reader, name string) bool {
	_, present := r.properties[name]

	return !read[bool](r, name) && present
}

// store reads a property that D-Bus types as a structure or as an array of structures.
func (r *reader) store(name string, to any) {
	value, present := r.properties[name]
	if !present {
		return
	}

	err := dbus.Store([]any{value}, to)
	if err != nil {
		r.fail(fmt.Errorf("%s: %w", name, err))
	}
}
