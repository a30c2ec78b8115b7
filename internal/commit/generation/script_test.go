package generation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/scripttest"
)

// TestScripts runs the scripts of testdata/scripts, each on a root folder of its own. README.md in testdata describes
// the commands.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/scripts: got %d, %v; want some", len(files), err)
	}
	for _, file := range files {
		needsRoot := strings.Contains(file, "owners")
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			if needsRoot && os.Geteuid() != 0 {
				t.Skip("needs root, to give files to another user")
			}
			for _, s := range scripttest.Load(t, file) {
				t.Run(s.Name, func(t *testing.T) {
					sc := &scene{box: newBox(t), looks: map[string]map[string]inode{}}
					sc.play(s.Lines)
				})
			}
		})
	}
}

// scene is a script that runs on a box.
type scene struct {
	*box
	line         scripttest.Line
	s            *Store // of the process that runs; nil: none
	tx           *Txn
	gen          int   // that the last command made
	err          error // of the last command
	mayFail      bool
	c            *Comparison
	journal      *Journal // that was kept
	holds        Holds    // that were kept
	warned       []string // by the last check of a rollback
	noAttributes bool     // of the file system
	looks        map[string]map[string]inode
	stop         func(op, path string) error // fails an operation; nil: none
	ops          int                         // since the last `count`
}

func (sc *scene) play(lines []scripttest.Line) {
	sc.t.Helper()
	scripttest.Run(sc.t, sc, commands(), lines, func(l scripttest.Line) { sc.line = l })
}

// carryOut is a command in the rest of a line.
func (sc *scene) carryOut(words []string) {
	sc.t.Helper()
	outer := sc.line
	sc.play(scripttest.Sequence(sc.line.At, words, "repeat"))
	sc.line = outer
}

// store is the open store, which the first command that needs it opens.
func (sc *scene) store() *Store {
	sc.t.Helper()
	if sc.s == nil {
		sc.o.Fault = func(op, path string) error {
			sc.ops++
			if sc.stop != nil {
				return sc.stop(op, path)
			}
			return nil
		}
		sc.s = sc.open()
	}

	return sc.s
}

func (sc *scene) close() {
	if sc.s != nil {
		sc.s.Close()
	}
	sc.s = nil
}

// end keeps how a command ended.
func (sc *scene) end(err error) {
	sc.t.Helper()
	if sc.err = err; err != nil && !sc.mayFail {
		sc.t.Fatalf("%s: got %v, want no error", sc.line, err)
	}
}

// check reports a difference, with the line of the script.
func (sc *scene) check(what string, got, want any) {
	sc.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		sc.t.Errorf("%s\n%s: got %v, want %v", sc.line, what, got, want)
	}
}

func (sc *scene) contains(what, got string, parts []string) {
	sc.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			sc.t.Errorf("%s\n%s: got %q, want %q in it", sc.line, what, got, part)
		}
	}
}

func (sc *scene) number(text string, base int) int {
	i, err := strconv.ParseInt(text, base, 64)
	if err != nil {
		sc.t.Fatalf("%s: got %v, want a number", sc.line, err)
	}

	return int(i)
}

// at returns a path: one that is not absolute is below /etc/kubernetes, or below the state folder after "state/".
func (sc *scene) at(path string) string {
	switch rest, isState := strings.CutPrefix(path, "state/"); {
	case isState:
		return "/var/lib/prelet/" + rest
	case strings.HasPrefix(path, "/"):
		return path
	}

	return "/etc/kubernetes/" + path
}

// target is [OPTION:]PATH[=CONTENT]; the options are once, secret, dir, absent, forget, a mode, keep (the mode),
// uid=N (with its group), gid=N, and seen.
func (sc *scene) target(text string) Target {
	t := Target{Kind: File, Mode: 0o644, UID: Keep, GID: Keep}
	for {
		option, rest, isOption := strings.Cut(text, ":")
		if !isOption || strings.Contains(option, "/") {
			break
		}
		switch id, isOwner := strings.CutPrefix(option, "uid="); {
		case isOwner:
			t.UID, t.GID = sc.number(id, 10), sc.number(id, 10)
		case strings.HasPrefix(option, "gid="):
			t.GID = sc.number(option[len("gid="):], 10)
		case option == "seen": // empty, when the plan was made
			t.Seen = &State{Kind: File, SHA256: Checksum(nil)}
		case option == "once":
			t.CreateOnly = true
		case option == "secret":
			t.Secret, t.Mode = true, Keep
		case option == "dir":
			t.Kind, t.Mode = Dir, 0o755
		case option == "absent":
			t.Kind, t.Mode = Absent, 0
		case option == "forget":
			t.Kind, t.Mode, t.Forget = Absent, Keep, true
		case option == "forgets": // though it is to be there
			t.Forget = true
		case option == "keep":
			t.Mode = Keep
		default:
			t.Mode = sc.number(option, 8)
		}
		text = rest
	}
	path, content, hasContent := strings.Cut(text, "=")
	if t.Path = sc.at(path); hasContent {
		t.Content = []byte(content)
	}

	return t
}

// proposal is ID TARGET… and +force, +release, +unjudged, +above=N.
func (sc *scene) proposal(args []string) Proposal {
	p := plan(args[0])
	for _, arg := range args[1:] {
		option, isOption := strings.CutPrefix(arg, "+")
		switch above, isAbove := strings.CutPrefix(option, "above="); {
		case !isOption:
			p.Targets = append(p.Targets, sc.target(arg))
		case isAbove:
			p.Above = sc.number(above, 10)
		case option == "force":
			p.Force = true
		case option == "release":
			p.Release = true
		case option == "unjudged":
			p.Unjudged = []byte("{}")
		}
	}

	return p
}

// fails CODE TEXT COMMAND: the command ends with this code, this error of the package or this errno.
func (sc *scene) cmdFails(args []string) {
	sc.t.Helper()
	sc.mayFail, sc.err = true, nil
	sc.carryOut(args[2:])
	sc.mayFail = false
	known := map[string]error{
		"nothing": ErrNothing, "differs": ErrDiffers, "changed": ErrChanged, "superseded": ErrSuperseded,
		"no-generation": ErrNoGeneration, "newer": ErrNewer, "killed": errKilled,
		"ENOENT": unix.ENOENT, "ENOSPC": unix.ENOSPC,
	}
	want := known[args[0]]
	if want != nil && !errors.Is(sc.err, want) || want == nil && string(exitOf(sc.err)) != args[0] ||
		sc.err == nil || !strings.Contains(sc.err.Error(), args[1]) {
		sc.t.Errorf("%s\ngot %v with code %q, want %s and %q", sc.line, sc.err, exitOf(sc.err), args[0], args[1])
	}
}

// refused TEXT COMMAND: the command ends with cannot-write, and nothing has changed.
func (sc *scene) cmdRefused(args []string) {
	sc.t.Helper()
	sc.store()
	before := sc.look()
	sc.cmdFails(append([]string{"cannot-write"}, args...))
	if now := sc.look(); !reflect.DeepEqual(before, now) {
		sc.t.Errorf("%s\ngot %v, want nothing changed: %v", sc.line, now, before)
	}
	sc.check("left behind", sc.litter(), []string{})
}

// stop OP SUFFIX COMMAND: the process of the command dies at the first operation OP, or at any with "-", on a path with
// this end; another one goes on.
func (sc *scene) cmdStop(args []string) {
	sc.t.Helper()
	ended := false
	sc.store()
	sc.stop = func(op, path string) error {
		ended = ended || (op == args[0] || args[0] == "-") && strings.HasSuffix(path, args[1])
		return endIf(ended)
	}
	sc.mayFail = true
	sc.carryOut(args[2:])
	sc.mayFail, sc.stop = false, nil
	sc.close()
	sc.check("stopped", ended && sc.err != nil, true)
}

// full PART: no write to a path with this part has space, until what is set aside for a rollback is freed.
func (sc *scene) cmdFull(args []string) {
	sc.close()
	sc.stop = func(op, path string) error {
		if op == opTruncate && filepath.Base(path) == lockName {
			sc.stop = nil
		}
		if op == opWrite && strings.Contains(path, args[0]) {
			return unix.ENOSPC
		}
		return nil
	}
}

// theirs FILE: another user has put it into the state folder; link: a journal that is a link to nowhere.
func (sc *scene) cmdTheirs(args []string) {
	path := sc.path("/var/lib/prelet/" + args[0])
	switch args[0] {
	case "nothing":
		return
	case "link":
		path = sc.path("/var/lib/prelet/" + journalName)
		if err := os.Symlink("/nowhere", path); err != nil {
			sc.t.Fatal(err)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
			sc.t.Fatal(err)
		}
	}
	if err := os.Lchown(path, 1000, 0); err != nil {
		sc.t.Fatal(err)
	}
}

// holds PIN [PLAN]: what is pinned, or none, and which of p1, p2 and p3 is held, with held.json and without it.
func (sc *scene) cmdHolds(args []string) {
	sc.t.Helper()
	file := sc.path("/var/lib/prelet/" + heldName)
	for _, at := range []string{"before", "after"} {
		got := []string{"none"}
		if gen, _, ok := sc.store().Pinned(); ok {
			got[0] = strconv.Itoa(gen)
		}
		for _, p := range []string{"p1", "p2", "p3"} {
			if _, ok := sc.store().Held(p); ok {
				got = append(got, p)
			}
		}
		sc.check(at+" held.json is removed", strings.Join(got, " "), strings.Join(args, " "))
		if len(args) == 1 && args[0] == "none" || at == "after" {
			continue // an empty file is the mark of a release
		}
		if err := os.Remove(file); err != nil {
			sc.t.Fatal(err)
		}
	}
}

// rot GEN CONTENT: a byte of this content is another one.
func (sc *scene) cmdRot(args []string) {
	gen := sc.number(args[0], 10)
	pack, err := sc.store().pack(gen)
	if err != nil {
		sc.t.Fatal(err)
	}
	f, err := os.OpenFile(sc.path("/var/lib/prelet/generations/"+args[0]), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), pack.offset(pack.findContent(Checksum([]byte(args[1])))))
		f.Close()
	}
	if err != nil {
		sc.t.Fatal(err)
	}
}

func (sc *scene) cmdApply(args []string) {
	sc.t.Helper()
	gen, err := apply(sc.store(), sc.proposal(args))
	sc.gen = gen
	sc.end(err)
}

func (sc *scene) cmdBegin(args []string) {
	sc.t.Helper()
	tx, err := sc.store().Begin(sc.proposal(args))
	sc.tx = tx
	sc.end(err)
}

func (sc *scene) cmdCompare(args []string) {
	sc.t.Helper()
	c, err := sc.store().Compare(sc.proposal(args))
	sc.c = c
	sc.end(err)
}

// rollback FROM TO WHY [hold] [PATH…], judge FROM TO WHY [hold] [PATH…]: `judge` awaits a verdict; paths are left out.
func (sc *scene) rollBack(args []string, awaits bool) {
	sc.t.Helper()
	from, to, why := sc.number(args[0], 10), sc.number(args[1], 10), args[2]
	rest, hold := args[3:], slices.Contains(args[3:], "hold")
	var err error
	if awaits {
		var without []string
		for _, path := range rest {
			if path != "hold" {
				without = append(without, sc.at(path))
			}
		}
		sc.gen, err = sc.store().RollbackToJudge(from, to, why, hold, without...)
	} else {
		sc.gen, err = sc.store().Rollback(from, to, why, hold)
	}
	sc.end(err)
}

// journal none, or PHASE gen=N [from=N to=N] [tries=N@BOOT] [mono]: the journal; mono: the clock of the commit is known.
func (sc *scene) cmdJournal(args []string) {
	sc.t.Helper()
	j, err := sc.store().Journal()
	got := "none"
	if j != nil {
		got = fmt.Sprintf("%s gen=%d", j.Phase, j.Gen)
		if j.From != 0 {
			got += fmt.Sprintf(" from=%d to=%d", j.From, j.To)
		}
		if j.Tries != 0 {
			got += fmt.Sprintf(" tries=%d@%s", j.Tries, j.BootID)
		}
		if j.CommitMono != 0 {
			got += " mono"
		}
	}
	sc.check(fmt.Sprintf("journal (%v)", err), got, strings.Join(args, " "))
}

// generations N=STATUS[,restores=N][,adopted]…: all of them.
func (sc *scene) cmdGenerations(args []string) {
	sc.t.Helper()
	all, err := sc.store().List()
	var got []string
	for _, i := range all {
		text := fmt.Sprintf("%d=%s", i.Gen, i.Status)
		if i.Restores >= 0 {
			text += fmt.Sprintf(",restores=%d", i.Restores)
		}
		if i.Adopted {
			text += ",adopted"
		}
		got = append(got, text)
	}
	sc.check(fmt.Sprintf("generations (%v)", err), strings.Join(got, " "), strings.Join(args, " "))
}

// entry PATH ACTION [TEXT…]: of the last comparison; the text is in its reason. ACTION - is none.
func (sc *scene) cmdEntry(args []string) {
	sc.t.Helper()
	got := Entry{Action: "-"}
	if i := slices.IndexFunc(sc.c.Entries, func(e Entry) bool { return e.Path == sc.at(args[0]) }); i >= 0 {
		got = sc.c.Entries[i]
	}
	action := string(got.Action)
	if got.Drift {
		action += ",drift"
	}
	sc.check("action on "+args[0], action, args[1])
	sc.contains("why", got.Why, args[2:])
}

// same NAME, like NAME, targets NAME: the tree compared with the remembered one: with inodes and times, without them,
// without the times of folders.
func (sc *scene) cmdSame(name string, of func(map[string]inode) any) {
	sc.t.Helper()
	if got, want := of(sc.look()), of(sc.looks[name]); !reflect.DeepEqual(got, want) {
		sc.t.Errorf("%s\ngot  %v\nwant %v", sc.line, got, want)
	}
}

// held PLAN [WHY], held none PLAN, pinned N [WHY], pinned none: what is held.
func (sc *scene) cmdHeld(args []string) {
	sc.t.Helper()
	if isNone := args[0] == "none"; isNone {
		_, ok := sc.store().Held(args[1])
		sc.check("held", ok, false)
		return
	}
	why, ok := sc.store().Held(args[0])
	sc.check("held ("+why+")", ok, true)
	sc.contains("why", why, args[1:])
}

func (sc *scene) cmdPinned(args []string) {
	sc.t.Helper()
	gen, why, ok := sc.store().Pinned()
	got := "none"
	if ok {
		got = map[bool]string{true: "unreadable", false: strconv.Itoa(gen)}[gen == Unreadable]
	}
	sc.check("pinned", got, args[0])
	sc.contains("why", why, args[1:])
}

// damage FILE BYTES: the bytes of a file of the state folder, with a checksum for @SUM@; folder: a folder in its place;
// newer: held.json of a later version.
func (sc *scene) cmdDamage(args []string) {
	file := sc.path(sc.at("state/" + args[0]))
	err := os.RemoveAll(file)
	if args[1] == "folder" {
		err = errors.Join(err, os.MkdirAll(filepath.Join(file, "more"), 0o700))
	} else {
		text := strings.ReplaceAll(args[1], "@SUM@", Checksum(nil))
		if text == "newer" {
			text = string(encode(&held{Version: formatVersion + 1}))
		}
		err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
	}
	if err != nil {
		sc.t.Fatal(err)
	}
}

func commands() map[string]func(*scene, []string) {
	type args = []string
	on := func(do func(s *Store, sc *scene, a args) error) func(*scene, []string) {
		return func(sc *scene, a []string) { sc.t.Helper(); sc.end(do(sc.store(), sc, a)) }
	}
	must := func(do func(sc *scene, a args) error) func(*scene, []string) {
		return func(sc *scene, a []string) {
			sc.t.Helper()
			if err := do(sc, a); err != nil {
				sc.t.Fatalf("%s: got %v, want no error", sc.line, err)
			}
		}
	}
	mode := func(sc *scene, text string) os.FileMode {
		m := sc.number(text, 8)
		out := os.FileMode(m & 0o777)
		if m&0o1000 != 0 {
			out |= os.ModeSticky
		}
		return out
	}

	return map[string]func(*scene, []string){
		// The tree.
		"write": func(sc *scene, a []string) { sc.box.write(sc.at(a[0]), a[2], mode(sc, a[1])) },
		"large": must(func(sc *scene, a args) error { return os.Truncate(sc.path(sc.at(a[0])), MaxContent+1) }),
		"mkdir": must(func(sc *scene, a args) error { return os.MkdirAll(sc.path(sc.at(a[0])), mode(sc, a[1])) }),
		"chmod": must(func(sc *scene, a args) error { return os.Chmod(sc.path(sc.at(a[0])), mode(sc, a[1])) }),
		"chown": must(func(sc *scene, a args) error { return os.Lchown(sc.path(sc.at(a[0])), sc.number(a[1], 10), -1) }),
		"chgrp": must(func(sc *scene, a args) error { return os.Lchown(sc.path(sc.at(a[0])), -1, sc.number(a[1], 10)) }),
		"link":  must(func(sc *scene, a args) error { return os.Symlink(sc.path(sc.at(a[0])), sc.path(sc.at(a[1]))) }),
		"link-to": must(func(sc *scene, a args) error {
			_ = os.Remove(sc.path(sc.at(a[1])))
			return os.Symlink(a[0], sc.path(sc.at(a[1])))
		}),
		"fifo": must(func(sc *scene, a args) error { return unix.Mkfifo(sc.path(sc.at(a[0])), 0o600) }),
		"rm":   must(func(sc *scene, a args) error { return os.Remove(sc.path(sc.at(a[0]))) }),
		"mv":   must(func(sc *scene, a args) error { return os.Rename(sc.path(sc.at(a[0])), sc.path(sc.at(a[1]))) }),
		"file": func(sc *scene, a []string) {
			sc.t.Helper()
			sc.check(a[0], sc.read(sc.at(a[0])), strings.Join(a[1:], " "))
		},
		"mode": func(sc *scene, a []string) { // absent, or as ls shows it
			sc.t.Helper()
			got := "absent"
			if i, err := os.Lstat(sc.path(sc.at(a[0]))); err == nil {
				got = i.Mode().String()
			}
			sc.check("mode of "+a[0], got, a[1])
		},
		"remember": func(sc *scene, a []string) { sc.looks[a[0]] = sc.look() },
		"same": func(sc *scene, a []string) {
			sc.t.Helper()
			sc.cmdSame(a[0], func(m map[string]inode) any { return m })
		},
		"like": func(sc *scene, a []string) {
			sc.t.Helper()
			sc.cmdSame(a[0], func(m map[string]inode) any { return nodes(m) })
		},
		"same-file": func(sc *scene, a []string) {
			sc.t.Helper()
			sc.cmdSame(a[0], func(m map[string]inode) any { return m[sc.at(a[1])] })
		},
		"targets": func(sc *scene, a []string) {
			sc.t.Helper()
			sc.cmdSame(a[0], func(m map[string]inode) any { return targetsOf(m) })
		},
		"litter": func(sc *scene, a []string) { sc.check("left behind", len(sc.litter()), 0) },

		// Processes and what they do.
		"close":   func(sc *scene, _ []string) { sc.close() },
		"boot":    func(sc *scene, a []string) { sc.close(); sc.o.BootID = a[0] },
		"apply":   (*scene).cmdApply,
		"begin":   (*scene).cmdBegin,
		"compare": (*scene).cmdCompare,
		"commit":  func(sc *scene, _ []string) { var err error; sc.gen, err = sc.tx.Commit(); sc.end(err) },
		"publish": func(sc *scene, _ []string) { sc.end(sc.tx.Publish()) },
		"adopt":   on(func(s *Store, sc *scene, a args) (err error) { sc.gen, err = s.Adopt(sc.proposal(a)); return err }),
		"good": on(func(s *Store, sc *scene, a args) error {
			var report []byte
			for _, text := range a[1:] {
				report = []byte(text)
			}
			return s.Good(sc.number(a[0], 10), report)
		}),
		"applied-good": func(sc *scene, a []string) { sc.cmdApply(a); sc.end(sc.s.Good(sc.gen, nil)) },
		"unhealthy":    on(func(s *Store, sc *scene, a args) error { return s.MarkUnhealthy(sc.number(a[0], 10), a[1]) }),
		"retire":       on(func(s *Store, sc *scene, a args) error { return s.Retire(sc.number(a[0], 10), sc.at(a[1])) }),
		"recover":      on(func(s *Store, sc *scene, _ args) error { _, err := s.Recover(); return err }),
		"collect":      on(func(s *Store, sc *scene, a args) error { return s.Collect(sc.number(a[0], 10)) }),
		"hold":         on(func(s *Store, _ *scene, a args) error { return s.Hold(a[0], a[1]) }),
		"pin":          on(func(s *Store, sc *scene, a args) error { return s.Pin(sc.number(a[0], 10), a[1]) }),
		"release":      on(func(s *Store, _ *scene, _ args) error { return s.Release() }),
		"newer":        on(func(s *Store, _ *scene, _ args) error { return s.Newer() }),
		"knows-before": on(func(s *Store, _ *scene, _ args) error { return s.KnowsBefore() }),
		"current":      on(func(s *Store, _ *scene, _ args) error { _, err := s.Current(); return err }),
		"rollback":     func(sc *scene, a []string) { sc.t.Helper(); sc.rollBack(a, false) },
		"judge":        func(sc *scene, a []string) { sc.t.Helper(); sc.rollBack(a, true) },
		"check-rollback": on(func(s *Store, sc *scene, a args) (err error) { // FROM TO [WARNING]
			sc.warned, err = s.CheckRollback(sc.number(a[0], 10), sc.number(a[1], 10))
			sc.check("warnings", len(sc.warned), len(a)-2)
			sc.contains("warnings", strings.Join(sc.warned, "\n"), a[2:])
			return err
		}),
		"try": on(func(s *Store, sc *scene, a args) error { // BOOT N
			tries, err := s.AddTry(a[0])
			sc.check("tries", tries, a[1])
			return err
		}),
		"aside": must(func(sc *scene, a args) error {
			return os.WriteFile(sc.path(sc.at("state/generations/"+a[0]+".aside")), nil, 0o600)
		}),
		"fails":   (*scene).cmdFails,
		"refused": (*scene).cmdRefused,
		"stop":    (*scene).cmdStop,
		"theirs":  (*scene).cmdTheirs, "holds": (*scene).cmdHolds, "rot": (*scene).cmdRot,
		"is-full": func(sc *scene, _ []string) { sc.check("the disk is full", sc.stop != nil, true) },
		"full-always": func(sc *scene, _ []string) {
			sc.close()
			sc.stop = func(op, _ string) error { return map[bool]error{true: unix.ENOSPC}[op == opWrite] }
		},
		"ballast": func(sc *scene, _ []string) { // space is set aside again
			i, err := os.Stat(sc.path("/var/lib/prelet/" + lockName))
			sc.check(fmt.Sprintf("space is set aside (%v)", err), err == nil && i.Size() >= ballastMin, true)
		},
		"open": func(sc *scene, _ []string) {
			s, err := Open(sc.t.Context(), sc.o)
			if sc.s = s; err != nil {
				sc.s = nil
			}
			sc.end(err)
		},
		"read-only": must(func(sc *scene, _ args) (err error) { sc.close(); sc.s, err = OpenReadOnly(sc.o); return err }),
		"no-generation-in-place": on(func(s *Store, sc *scene, _ args) error {
			i, err := s.Current()
			sc.check("in place", i == nil, true)
			return err
		}),
		"in-place": on(func(s *Store, sc *scene, a args) error { // GEN ENTRIES NEWER
			i, err := s.Current()
			if err == nil {
				sc.check("in place", fmt.Sprint(i.Gen, len(i.Entries), i.Newer), strings.Join(a, " "))
			}
			return err
		}),
		"why": on(func(s *Store, sc *scene, a args) error { // of the generation in place
			i, err := s.Current()
			sc.check("why", i.Why, a[0])
			return err
		}),
		"rollback-current": on(func(s *Store, sc *scene, a args) error { // TO WHY
			i, err := s.Current()
			if err == nil {
				_, err = s.Rollback(i.Gen, sc.number(a[0], 10), a[1], false)
			}
			return err
		}),
		"by-hand": func(sc *scene, _ []string) {
			sc.play(scripttest.Sequence(sc.line.At, []string{"pin", "1", ByHand, ";", "judge", "2", "1", ByHand, ";", "good", "3"}))
		},
		"blamed": func(sc *scene, _ []string) {
			sc.play(scripttest.Sequence(sc.line.At, []string{"judge", "2", "1", "it exits", "hold", ";", "good", "3"}))
		},
		"keep-holds":    on(func(s *Store, sc *scene, _ args) (err error) { sc.holds, err = s.Holds(); return err }),
		"restore-holds": on(func(s *Store, sc *scene, _ args) error { return s.RestoreHolds(sc.holds) }),
		"fails-any": func(sc *scene, a []string) { // COMMAND, with ; in place of blanks
			sc.mayFail, sc.err = true, nil
			sc.carryOut(strings.Split(a[0], ";"))
			sc.mayFail = false
			sc.check(a[0]+" fails", sc.err != nil, true)
		},
		"outdated":     func(sc *scene, _ []string) { sc.check("outdated", IsOutdated(sc.err), true) },
		"not-outdated": func(sc *scene, _ []string) { sc.check("outdated", IsOutdated(sc.err), false) },
		"stuck-command": func(sc *scene, a []string) { // N: a person runs the Nth of the two commands of the last error
			var stuck *StuckError
			if !errors.As(sc.err, &stuck) || len(stuck.Commands) != 2 || stuck.Journal != filepath.Join(sc.o.Dir, journalName) {
				sc.t.Fatalf("%s: got %+v, want two commands and the journal", sc.line, sc.err)
			}
			if out, err := exec.Command("sh", "-c", stuck.Commands[sc.number(a[0], 10)]).CombinedOutput(); err != nil {
				sc.t.Fatalf("%s: got %v, %s; want no error", sc.line, err, out)
			}
		},
		"attribute": func(sc *scene, a []string) { // PATH NAME VALUE, where the file system has them
			sc.noAttributes = unix.Setxattr(sc.path(sc.at(a[0])), a[1], []byte(a[2]), 0) != nil
		},
		"has-attribute": func(sc *scene, a []string) {
			buf := make([]byte, 64)
			n, err := unix.Getxattr(sc.path(sc.at(a[0])), a[1], buf)
			sc.check(fmt.Sprintf("attribute (%v)", err), sc.noAttributes || string(buf[:max(n, 0)]) == a[2], true)
		},
		"owner": func(sc *scene, a []string) { // PATH MODE UID
			i, err := os.Lstat(sc.path(sc.at(a[0])))
			if err != nil {
				sc.t.Fatal(err)
			}
			sc.check("owner of "+a[0], fmt.Sprint(i.Mode(), " ", i.Sys().(*syscall.Stat_t).Uid), a[1]+" "+a[2])
		},
		"full":         (*scene).cmdFull,
		"not-full":     func(sc *scene, _ []string) { sc.stop = nil },
		"count":        func(sc *scene, _ []string) { sc.store(); sc.ops = 0 },
		"no-operation": func(sc *scene, _ []string) { sc.check("operations since count", sc.ops, 0) },
		"repeat": func(sc *scene, a []string) { // VALUES COMMAND: with $N in the command
			for _, value := range strings.Split(a[0], ",") {
				var words []string
				for _, w := range a[1:] {
					words = append(words, strings.ReplaceAll(w, "%", value))
				}
				sc.carryOut(words)
			}
		},

		// The state folder.
		"damage":   (*scene).cmdDamage,
		"as-newer": func(sc *scene, a []string) { sc.close(); sc.asNewer(a[0]) },
		"flip": func(sc *scene, a []string) { // FILE: a bit of its last part, which no manifest shows
			p := sc.path(sc.at("state/" + a[0]))
			sc.spoil(p, len(read(sc.t, p))*8-3)
		},

		// Checks of the state.
		"gen":         func(sc *scene, a []string) { sc.check("generation", sc.gen, a[0]) },
		"journal":     (*scene).cmdJournal,
		"generations": (*scene).cmdGenerations,
		"entry":       (*scene).cmdEntry,
		"entries":     func(sc *scene, a []string) { sc.check("entries", len(sc.c.Entries), a[0]) },
		"changes": func(sc *scene, a []string) {
			sc.check("changed, adopts", fmt.Sprint(sc.c.Changed, " ", sc.c.Adopts), strings.Join(a, " "))
		},
		"held":   (*scene).cmdHeld,
		"pinned": (*scene).cmdPinned,
		"held-plans": func(sc *scene, a []string) {
			all, err := sc.store().HeldAll()
			sc.check(fmt.Sprintf("held plans (%v)", err), strings.Join(sortedKeys(all), " "), strings.Join(a, " "))
		},
		"last-good": func(sc *scene, a []string) {
			gen, ok := sc.store().LastGood()
			sc.check("last good", map[bool]string{true: strconv.Itoa(gen), false: "none"}[ok], a[0])
		},
		"last-intact": func(sc *scene, a []string) { // BELOW GEN [DAMAGED…]
			gen, damaged, _ := sc.store().LastIntact(sc.number(a[0], 10))
			got := []string{strconv.Itoa(gen)}
			for _, d := range damaged {
				got = append(got, fmt.Sprintf("%d:%s", d.Gen, exitOf(d.Why)))
			}
			sc.check("last intact", strings.Join(got, " "), strings.Join(a[1:], " "))
		},
		"blob": func(sc *scene, a []string) {
			got, err := sc.store().Blob(sc.number(a[0], 10), a[1])
			if sc.end(err); err == nil {
				sc.check("blob", string(got), a[2])
			}
		},
		"content": func(sc *scene, a []string) { // it is kept
			got, err := sc.store().Content(Checksum([]byte(a[0])))
			if sc.end(err); err == nil {
				sc.check("content", string(got), a[0])
			}
		},
		"original": func(sc *scene, a []string) { // PATH [CONTENT]
			st, content, ok, err := sc.store().Original(sc.at(a[0]))
			sc.check(fmt.Sprintf("original (%v)", err), fmt.Sprint(ok, st.Kind != Absent, " ", string(content)),
				fmt.Sprint(true, len(a) > 1, " ", strings.Join(a[1:], "")))
		},
		"differing": func(sc *scene, a []string) {
			got, err := sc.store().Differing()
			sc.check(fmt.Sprintf("differing (%v)", err), strings.Join(got, " "), strings.Join(a, " "))
		},
		"keep-journal": func(sc *scene, _ []string) { sc.journal, sc.err = sc.store().Journal() },
		"same-journal": func(sc *scene, a []string) { // yes or no, later: the clock of a later boot
			j, err := sc.store().Journal()
			sc.check(fmt.Sprintf("the same commit (%v)", err), sc.journal.Same(j) && j.Same(j), a[0] == "yes")
			for range a[1:] {
				sc.check("a later clock", j.CommitMono > sc.journal.CommitMono, true)
			}
		},
	}
}
