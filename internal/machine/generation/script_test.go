package generation

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/scripttest"
)

// TestScripts runs the scripts of testdata/scripts, each on a root folder of its own. README.md in testdata describes
// the commands.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts in testdata/scripts: got %d, %v; want some", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			switch {
			case name == "owners" && os.Geteuid() != 0:
				t.Skip("needs root, to give files to another user")
			case name == "mounts" && os.Getenv(inNamespace) == "":
				startInNamespace(t)
				return
			}
			for _, s := range scripttest.Load(t, file) {
				t.Run(s.Name, func(t *testing.T) {
					playScript(t, s.Lines)
				})
			}
		})
	}
}

// playScript plays a script. The lines after "== killed" are those of a process that is killed at a sample of its
// operations, and at last at none, each time in a root folder of its own. Then another process carries out the lines after
// "== then".
func playScript(t *testing.T, lines []scripttest.Line) {
	t.Helper()
	part := func(name string) int {
		return slices.IndexFunc(lines, func(l scripttest.Line) bool { return slices.Equal(l.Words, []string{"==", name}) })
	}
	killed, then := part("killed"), part("then")
	if killed < 0 {
		newScene(t).play(lines)
		return
	}
	first, step := sample.New(t).OneIn(sample.Quarter(4), t.Name())
	kill := &killAt{}
	for kill.at = 1 + first; ; kill.at += step {
		sc := newScene(t)
		sc.play(lines[:killed])
		sc.store()
		kill.seen = 0
		sc.stop, sc.mayFail = kill.hook, true
		sc.play(lines[killed+1 : then])
		sc.stop, sc.mayFail, sc.isDone = nil, false, kill.seen < kill.at
		sc.close()
		sc.play(lines[then+1:])
		sc.close()
		if kill.seen < kill.at {
			break
		}
		if t.Failed() {
			t.Fatalf("killed at operation %d of %s: want the lines after it to hold", kill.at, lines[killed+1])
		}
	}
	if kill.seen < 3 {
		t.Errorf("got %d operations to be killed at, want 3 or more", kill.seen)
	}
}

// scene is a script that runs on a box.
type scene struct {
	*box
	line         scripttest.Line
	s            *Store   // of the process that runs; nil: none
	other        *Store   // of another process
	older        *os.File // locked by a process of prelet 0.1.0
	tx           *Txn
	gen          int   // that the last command made
	err          error // of the last command
	mayFail      bool
	c            *Comparison
	journal      *Journal // that was kept
	noAttributes bool     // of the file system
	looks        map[string]map[string]inode
	stop         func(op, path string) error // fails an operation; nil: none
	ops          int                         // since the last `count`
	power        *power                      // nil: it cannot be cut
	isDone       bool                        // what was to be killed came to its end
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return &scene{box: newBox(t), looks: map[string]map[string]inode{}}
}

func (sc *scene) play(lines []scripttest.Line) {
	sc.t.Helper()
	scripttest.Run(sc.t, lines, func(l scripttest.Line) bool {
		sc.line = l
		values := strings.NewReplacer("@PID@", strconv.Itoa(os.Getpid()), "@GEN@", strconv.Itoa(sc.gen),
			"@ROOT@", sc.root)
		words := slices.Clone(l.Words)
		for i := range words {
			words[i] = values.Replace(words[i])
		}
		return sc.do(words[0], words[1:])
	})
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
				if err := sc.stop(op, path); err != nil {
					return err
				}
			}
			if sc.power != nil {
				sc.power.hook(op, path)
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

// ended is end for a command that may make a generation.
func (sc *scene) ended(gen int, err error) {
	sc.t.Helper()
	sc.gen = gen
	sc.end(err)
}

// currentEntry returns the entry of a target in the generation in place.
func (sc *scene) currentEntry(name string) (e Entry, ok bool) {
	current, err := sc.store().Current()
	sc.must(err)

	return current.Entry(sc.at(name))
}

// must ends the test if what a command of the script needs has failed.
func (sc *scene) must(err error) {
	sc.t.Helper()
	if err != nil {
		sc.t.Fatalf("%s: got %v, want no error", sc.line, err)
	}
}

// compare reports a difference of two looks.
func (sc *scene) compare(got, want any) {
	sc.t.Helper()
	if !reflect.DeepEqual(got, want) {
		sc.t.Errorf("%s\ngot  %v\nwant %v", sc.line, got, want)
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
	sc.must(err)

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

// disk returns the place of a path below the root folder.
func (sc *scene) disk(path string) string { return sc.path(sc.at(path)) }

// mode returns a mode of which the number is octal.
func (sc *scene) mode(text string) os.FileMode {
	m := sc.number(text, 8)

	mode := os.FileMode(m & 0o777)
	for bit, flag := range map[int]os.FileMode{0o1000: os.ModeSticky, 0o2000: os.ModeSetgid, 0o4000: os.ModeSetuid} {
		if m&bit != 0 {
			mode |= flag
		}
	}

	return mode
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
			t.Seen = &FileState{Kind: File, SHA256: Checksum(nil)}
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
		t.Content = []byte(sc.text(content))
	}

	return t
}

// text is a content: TEXT, or TEXT*N for N times.
func (sc *scene) text(text string) string {
	part, times, isMany := strings.Cut(text, "*")
	if !isMany {
		return text
	}

	return strings.Repeat(part, sc.number(times, 10))
}

// many ID FILES,CHANGED,BLOB CONTENT [ORIGINAL]: a commit of so many files, with another content only in those that are
// changed, and with a blob of a size.
func (sc *scene) cmdMany(a []string) {
	sc.t.Helper()
	sizes := strings.Split(a[1], ",")
	p := sc.proposal([]string{a[0], "+recording=" + sizes[2]})
	for i := range sc.number(sizes[0], 10) {
		at, content := fmt.Sprintf("/etc/site.d/%d.conf", i), "1"
		if i < sc.number(sizes[1], 10) {
			content = sc.text(a[2])
		}
		if sc.read(at) == "absent" {
			sc.write(at, sc.text(append(a, "original")[3]), 0o644)
		}
		p.Targets = append(p.Targets, file(at, content))
	}
	sc.ended(apply(sc.store(), p))
}

// acl KIND PATH UID PERMISSIONS: an ACL, access or default, that gives one user these permissions.
func (sc *scene) cmdACL(a []string) {
	sc.t.Helper()
	const version, noID = 2, ^uint32(0)
	permissions := uint16(sc.number(a[3], 8))
	acl := binary.LittleEndian.AppendUint32(nil, version)
	for _, e := range []struct {
		tag, permissions uint16
		id               uint32
	}{
		{0x01, 7, noID}, {0x02, permissions, uint32(sc.number(a[2], 10))}, {0x04, permissions & 5, noID},
		{0x10, permissions, noID}, {0x20, permissions & 5, noID},
	} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.permissions)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	err := unix.Setxattr(sc.disk(a[1]), "system.posix_acl_"+a[0], acl, 0)
	if errors.Is(err, unix.ENOTSUP) {
		sc.t.Skip("needs a TMPDIR whose file system has ACLs")
	}
	sc.must(err)
}

// proposal is ID TARGET… and +force, +release, +unjudged, +above=N, +recording=SIZE.
func (sc *scene) proposal(args []string) Proposal {
	p := plan(args[0])
	for _, arg := range args[1:] {
		option, isOption := strings.CutPrefix(arg, "+")
		switch option, value, _ := strings.Cut(option, "="); {
		case !isOption:
			p.Targets = append(p.Targets, sc.target(arg))
		case option == "above":
			p.Above = sc.number(value, 10)
		case option == "recording":
			p.Blobs["recording"] = make([]byte, sc.number(value, 10))
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

// record commits a proposal that must change no target.
func (sc *scene) record(args []string) (int, error) {
	p := sc.proposal(args)
	c, err := sc.store().Compare(p)
	sc.must(err)
	sc.check("a target changes", c.Changed, false)

	return apply(sc.s, p)
}

// fails CODE TEXT COMMAND: the command ends with this code, this error of the package or this errno.
func (sc *scene) cmdFails(args []string) {
	sc.t.Helper()
	sc.mayFail, sc.err = true, nil
	sc.carryOut(args[2:])
	sc.mayFail = false
	known := map[string]error{
		"nothing": ErrNothing, "changed": ErrChanged, "superseded": ErrSuperseded,
		"no-generation": ErrNoGeneration, "newer": ErrNewer, "killed": errKilled,
		"ENOENT": unix.ENOENT, "ENOSPC": unix.ENOSPC, "EBUSY": unix.EBUSY, "EROFS": unix.EROFS,
		"EFBIG":    unix.EFBIG,
		"deadline": context.DeadlineExceeded,
	}
	want, text := known[args[0]], args[1]
	if want != nil && !errors.Is(sc.err, want) || want == nil && string(fault.CodeOf(sc.err)) != args[0] ||
		sc.err == nil || !strings.Contains(sc.err.Error(), text) {
		sc.t.Errorf("%s\ngot %v with code %q, want %s and %q", sc.line, sc.err, fault.CodeOf(sc.err), args[0], text)
	}
}

// refused TEXT COMMAND: the command ends with cannot-write, and nothing has changed.
func (sc *scene) cmdRefused(args []string) {
	sc.t.Helper()
	sc.store()
	before := sc.look()
	sc.cmdFails(append([]string{"cannot-write"}, args...))
	sc.compare(sc.look(), before)
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

// rot GEN CONTENT: a byte of this content is another one.
func (sc *scene) cmdRot(args []string) {
	gen := sc.number(args[0], 10)
	pack, err := sc.store().pack(gen)
	sc.must(err)
	f, err := os.OpenFile(sc.path("/var/lib/prelet/generations/"+args[0]), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("x"), pack.offset(pack.findContent(Checksum([]byte(args[1])))))
		f.Close()
	}
	sc.must(err)
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

// generations N=STATUS[,restores=N]…: all of them.
func (sc *scene) cmdGenerations(args []string) {
	sc.t.Helper()
	all, err := sc.store().List()
	var got []string
	for _, i := range all {
		text := fmt.Sprintf("%d=%s", i.Gen, i.Status)
		if i.Restores >= 0 {
			text += fmt.Sprintf(",restores=%d", i.Restores)
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

// lockAsOlder locks the file that prelet 0.1.0 locks, and reports whether it was free.
func (sc *scene) lockAsOlder() bool {
	f, err := os.OpenFile(sc.disk("state/"+lockName), os.O_RDWR|os.O_CREATE, 0o600)
	sc.must(err)
	sc.older = f

	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// damage FILE BYTES: the bytes of a file of the state folder, with a checksum for @SUM@; folder: a folder in its place;
// newer: held.json of a later version; sealed TEXT: a document with its checksum.
func (sc *scene) cmdDamage(args []string) {
	file := sc.disk("state/" + args[0])
	err := os.RemoveAll(file)
	if args[1] == "folder" {
		err = errors.Join(err, os.MkdirAll(filepath.Join(file, "more"), 0o700))
	} else {
		text := strings.ReplaceAll(args[1], "@SUM@", Checksum(nil))
		switch text {
		case "newer":
			text = string(encode(&held{Version: formatVersion + 1}))
		case "sealed":
			body := strings.TrimSuffix(strings.ReplaceAll(args[2], "@SUM@", Checksum(nil)), "}")
			text = body + sealBegin + Checksum([]byte(body)) + sealEnd
		}
		err = errors.Join(err, os.WriteFile(file, []byte(text), 0o600))
	}
	sc.must(err)
}

// do carries out a command and reports whether there is one with this name.
func (sc *scene) do(name string, a []string) bool {
	sc.t.Helper()
	all := strings.Join(a, " ")
	switch name {
	// The tree.
	case "write":
		sc.box.write(sc.at(a[0]), a[2], sc.mode(a[1]))
	case "large":
		sc.must(os.Truncate(sc.disk(a[0]), MaxContent+1))
	case "mkdir":
		sc.must(os.MkdirAll(sc.disk(a[0]), sc.mode(a[1])))
	case "chmod":
		sc.must(os.Chmod(sc.disk(a[0]), sc.mode(a[1])))
	case "chgrp":
		sc.must(os.Lchown(sc.disk(a[0]), -1, sc.number(a[1], 10)))
	case "chown":
		sc.must(os.Lchown(sc.disk(a[0]), sc.number(a[1], 10), -1))
	case "link":
		sc.must(os.Symlink(sc.disk(a[0]), sc.disk(a[1])))
	case "link-to":
		sc.must(os.Symlink(a[0], sc.disk(a[1])))
	case "socket":
		sc.must(unix.Mknod(sc.disk(a[0]), unix.S_IFSOCK|0o600, 0))
	case "fifo":
		sc.must(unix.Mkfifo(sc.disk(a[0]), 0o600))
	case "rm":
		sc.must(os.Remove(sc.disk(a[0])))
	case "mv":
		sc.must(os.Rename(sc.disk(a[0]), sc.disk(a[1])))
	case "attribute": // PATH NAME VALUE, where the file system has them
		sc.noAttributes = unix.Setxattr(sc.disk(a[0]), a[1], []byte(sc.text(a[2])), 0) != nil
	case "remove-attribute":
		sc.noAttributes = unix.Removexattr(sc.disk(a[0]), a[1]) != nil
	case "has-attribute":
		value := make([]byte, len(sc.text(a[2])))
		_, err := unix.Getxattr(sc.disk(a[0]), a[1], value)
		sc.check("attribute", sc.noAttributes || err == nil && string(value) == sc.text(a[2]), true)
	case "acl":
		sc.cmdACL(a)
	case "has-acl": // PATH yes|no
		_, err := unix.Getxattr(sc.disk(a[0]), accessACL, make([]byte, nodefile.MaxAttribute))
		sc.check("an ACL", err == nil, a[1] == "yes")
	case "umask": // of this process
		was := unix.Umask(sc.number(a[0], 8))
		sc.t.Cleanup(func() { unix.Umask(was) })
	case "limit-files": // SIZE: that this process may write
		var was unix.Rlimit
		sc.must(unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
		sc.must(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(sc.number(a[0], 10)), Max: was.Max}))
		sc.t.Cleanup(func() { sc.must(unix.Setrlimit(unix.RLIMIT_FSIZE, &was)) })
	case "forbid-setid":
		sc.store()
		forbidSetID(sc.t)
	case "disk": // OPTIONS: the root is a file system of its own, with real fsyncs
		mountSmall(sc.t, sc.root, a[0])
		sc.must(os.MkdirAll(sc.disk("/etc/kubernetes"), 0o755))
		sc.o.fsync = nil
	case "disk-at": // PATH OPTIONS
		mountSmall(sc.t, sc.disk(a[0]), a[1])
	case "bind":
		mount(sc.t, sc.disk(a[0]), sc.disk(a[1]), "", unix.MS_BIND, "")
	case "bind-read-only":
		makeReadOnly(sc.t, sc.disk(a[0]))
	case "unmount":
		sc.must(unix.Unmount(sc.disk(a[0]), 0))
	case "fill":
		fill(sc.t, sc.disk(a[0]))
	case "many":
		sc.cmdMany(a)
	case "file":
		sc.check(a[0], sc.read(sc.at(a[0])), sc.text(strings.Join(a[1:], " ")))
	case "mode", "owner": // PATH MODE [UID]: absent, or as ls shows it
		got := "absent"
		if i, err := os.Lstat(sc.disk(a[0])); err == nil {
			got = i.Mode().String()
			if name == "owner" {
				got += fmt.Sprint(" ", i.Sys().(*syscall.Stat_t).Uid)
			}
		}
		sc.check(name+" of "+a[0], got, strings.Join(a[1:], " "))
	case "remember":
		sc.looks[a[0]] = sc.look()
	case "same":
		sc.compare(sc.look(), sc.looks[a[0]])
	case "like":
		sc.compare(nodes(sc.look()), nodes(sc.looks[a[0]]))
	case "files-from": // NAME: each file is as it was then; others may be gone
		for path, now := range sc.look() {
			if now.mode.IsRegular() && !strings.Contains(path, "/.prelet-") {
				sc.compare(now, sc.looks[a[0]][path])
			}
		}
	case "files-like": // NAME: with contents and modes as then, and no others
		isNoFile := func(_ string, n node) bool { return !n.mode.IsRegular() }
		now, then := nodes(sc.look()), nodes(sc.looks[a[0]])
		maps.DeleteFunc(now, isNoFile)
		maps.DeleteFunc(then, isNoFile)
		sc.compare(now, then)
	case "same-file":
		sc.compare(sc.look()[sc.at(a[1])], sc.looks[a[0]][sc.at(a[1])])
	case "drift": // PATH [TEXT]: how the path differs from the generation in place
		entry, ok := sc.currentEntry(a[0])
		now, _, err := sc.s.Observe(sc.at(a[0]))
		sc.must(err)
		sc.check("it has an entry, and the drift of "+a[0], fmt.Sprint(ok, " ", entry.DescribeDrift(now)),
			"true "+strings.Join(a[1:], " "))
	case "as-recorded": // PATH, in the generation in place
		entry, _ := sc.currentEntry(a[0])
		got, _, err := sc.s.Observe(sc.at(a[0]))
		sc.must(err)
		sc.check("as recorded", got.Equal(entry.New), true)
	case "without-setid": // TEXT: the one warning of the last comparison
		sc.check("warnings", len(sc.c.WithoutSetID), 1)
		sc.contains("warnings", strings.Join(sc.c.WithoutSetID, "\n"), a)
	case "litter":
		sc.check("left behind", sc.litter(), []string{})

	// Processes and what they do.
	case "open":
		s, err := Open(sc.t.Context(), sc.o)
		if sc.s = s; err != nil {
			sc.s = nil
		}
		sc.end(err)
	case "open-other": // another process, which waits for the lock only for a moment
		ctx, cancel := context.WithTimeout(sc.t.Context(), 50*time.Millisecond)
		defer cancel()
		s, err := Open(ctx, sc.o)
		if err == nil {
			sc.other = s
			sc.t.Cleanup(func() { s.Close() })
		}
		sc.end(err)
	case "swap": // the other process goes on
		sc.s, sc.other = sc.other, sc.s
	case "unlock":
		sc.end(sc.store().Unlock())
	case "relock": // it waits only for a moment
		ctx, cancel := context.WithTimeout(sc.t.Context(), 50*time.Millisecond)
		defer cancel()
		sc.end(sc.store().Relock(ctx))
	case "older-locks": // a process of prelet 0.1.0 takes the lock, or does not get it
		sc.check("it has the lock", sc.lockAsOlder(), a[0] == "yes")
	case "older-ends":
		sc.must(sc.older.Close())
	case "lock-holder": // none, or this process
		s, err := OpenReadOnly(sc.o)
		sc.must(err)
		pid, ok := s.LockHolder()
		s.Close()
		sc.check("it is held, by this process", fmt.Sprint(ok, pid == os.Getpid()),
			fmt.Sprint(a[0] == "this", a[0] == "this"))
	case "close":
		sc.close()
	case "boot":
		sc.close()
		sc.o.BootID = a[0]
	case "read-only":
		sc.close()
		s, err := OpenReadOnly(sc.o)
		if sc.s = s; err != nil {
			sc.s = nil
		}
		sc.end(err)
	case "apply", "applied-good":
		gen, err := apply(sc.store(), sc.proposal(a))
		if err == nil && name == "applied-good" {
			err = sc.s.Good(gen, nil)
		}
		sc.ended(gen, err)
	case "begin":
		tx, err := sc.store().Begin(sc.proposal(a))
		sc.tx = tx
		sc.end(err)
	case "compare":
		c, err := sc.store().Compare(sc.proposal(a))
		sc.c = c
		sc.end(err)
	case "commit":
		sc.ended(sc.tx.Commit())
	case "publish":
		sc.end(sc.tx.Publish())
	case "record":
		sc.ended(sc.record(a))
	case "record-again": // unless it is recorded, which it is if the one that was to be killed was done or recovered
		gen, err := sc.record(a)
		if errors.Is(err, ErrNothing) {
			current, err := sc.s.Current()
			sc.must(err)
			sc.gen = current.Gen
			break
		}
		sc.ended(gen, err)
	case "good": // GEN [REPORT]
		var report []byte
		for _, text := range a[1:] {
			report = []byte(text)
		}
		sc.end(sc.store().Good(sc.number(a[0], 10), report))
	case "unhealthy":
		sc.end(sc.store().MarkUnhealthy(sc.number(a[0], 10), a[1]))
	case "retire":
		sc.end(sc.store().Retire(sc.number(a[0], 10), sc.at(a[1])))
	case "recover":
		_, err := sc.store().Recover()
		sc.end(err)
	case "durable": // what is there stays when the power is cut; of what comes, what is fsynced
		sc.store()
		sc.power = arm(sc.box)
	case "power-cut": // [adverse]: see power
		sc.close()
		boot := sc.o.BootID
		sc.power.adverse = len(a) > 0
		sc.box = sc.power.cut(memory(sc.t), func() bool { return false })
		sc.power, sc.o.BootID = nil, boot
	case "collect":
		sc.end(sc.store().Collect(sc.number(a[0], 10)))
	case "hold":
		sc.end(sc.store().Hold(a[0], a[1]))
	case "pin":
		sc.end(sc.store().Pin(sc.number(a[0], 10), a[1]))
	case "release":
		sc.end(sc.store().Release())
	case "newer":
		sc.end(sc.store().Newer())
	case "checks": // before a commit, without a change of the state folder
		s, err := OpenReadOnly(sc.o)
		sc.must(err)
		sc.end(s.Checks(nil).First())
		s.Close()
	case "is-read-only":
		sc.check("the store is read-only", sc.store().ReadOnly() != nil, true)
	case "rollback", "judge": // FROM TO WHY [hold] [PATH…]: judge awaits a verdict; the paths are left out
		from, to, rest := sc.number(a[0], 10), sc.number(a[1], 10), a[3:]
		hold := len(rest) > 0 && rest[0] == "hold"
		if name == "rollback" {
			sc.ended(sc.store().Rollback(from, to, a[2], hold, nil))
			break
		}
		var without []string
		for _, path := range rest[min(1, len(rest)):] {
			without = append(without, sc.at(path))
		}
		sc.ended(sc.store().RollbackToJudge(from, to, a[2], hold, nil, without...))
	case "rollback-current": // TO WHY
		i, err := sc.store().Current()
		sc.must(err)
		sc.ended(sc.s.Rollback(i.Gen, sc.number(a[0], 10), a[1], false, nil))
	case "by-hand":
		sc.carryOut([]string{"judge", "2", "1", ByHand, ";", "good", "3"})
	case "blamed":
		sc.carryOut([]string{"judge", "2", "1", "it exits", "hold", ";", "good", "3"})
	case "check-rollback": // FROM TO [WARNING]
		_, warnings, err := sc.store().CheckRollback(sc.number(a[0], 10), sc.number(a[1], 10))
		sc.check("warnings", len(warnings), len(a)-2)
		sc.contains("warnings", strings.Join(warnings, "\n"), a[2:])
		sc.end(err)
	case "try": // BOOT N
		tries, err := sc.store().AddTry(a[0])
		sc.check("tries", tries, a[1])
		sc.end(err)
	case "fails":
		sc.cmdFails(a)
	case "fails-any": // COMMAND, with ; in place of blanks
		sc.mayFail, sc.err = true, nil
		sc.carryOut(strings.Split(a[0], ";"))
		sc.mayFail = false
		sc.check(a[0]+" fails", sc.err != nil, true)
	case "refused":
		sc.cmdRefused(a)
	case "stop":
		sc.cmdStop(a)
	case "full":
		sc.cmdFull(a)
	case "full-always":
		sc.close()
		sc.stop = func(op, _ string) error { return map[bool]error{true: unix.ENOSPC}[op == opWrite] }
	case "not-full":
		sc.stop = nil
	case "is-full":
		sc.check("the disk is full", sc.stop != nil, true)
	case "count":
		sc.store()
		sc.ops = 0
	case "no-operation":
		sc.check("operations since count", sc.ops, 0)
	case "repeat": // VALUES COMMAND: with each value for % in the command
		for _, value := range strings.Split(a[0], ",") {
			sc.carryOut(strings.Split(strings.ReplaceAll(strings.Join(a[1:], "\x00"), "%", value), "\x00"))
		}
	// The state folder.
	case "aside": // none, or TEXT of the reason
		aside := sc.store().FindAside()
		sc.check("a state is set aside", aside != nil, a[0] != "none")
		if aside != nil {
			sc.contains("why", aside.String(), a)
		}
	case "mixed": // yes or no: the targets may be of two generations
		over := sc.store().StartsOver()
		sc.check("mixed", over != nil && over.IsMixed, a[0] == "yes")
	case "in-place-before": // GEN: what this boot is known to have put in place
		sc.close()
		sc.o.InPlace = sc.number(a[0], 10)
	case "lose-journal":
		sc.must(os.RemoveAll(sc.disk("state/" + journalName)))
	case "damage":
		sc.cmdDamage(a)
	case "as-newer":
		sc.close()
		sc.asNewer(a[0])
	case "flip": // FILE: a bit of its last part, which no manifest shows
		sc.spoil(sc.disk("state/"+a[0]), len(read(sc.t, sc.disk("state/"+a[0])))*8-3)
	case "rot":
		sc.cmdRot(a)
	case "ballast": // space is set aside again
		i, err := os.Stat(sc.disk("state/" + lockName))
		sc.must(err)
		sc.check("space is set aside", i.Size() >= ballastMin, true)

	// Checks of the state.
	case "gen":
		sc.check("generation", sc.gen, a[0])
	case "journal":
		sc.cmdJournal(a)
	case "keep-journal":
		sc.journal, _ = sc.store().Journal()
	case "same-journal": // yes or no; later: with the clock of a later boot
		j, err := sc.store().Journal()
		sc.must(err)
		sc.check("the same commit", sc.journal.Same(j) && j.Same(j), a[0] == "yes")
		sc.check("a later clock", len(a) < 2 || j.CommitMono > sc.journal.CommitMono, true)
	case "generations":
		sc.cmdGenerations(a)
	case "current", "why", "in-place", "no-generation-in-place": // of the generation in place: WHY, or GEN ENTRIES NEWER
		i, err := sc.store().Current()
		switch sc.end(err); {
		case err != nil || name == "current":
		case name == "why":
			sc.check(name, i.Why, all)
		case name == "in-place":
			sc.check(name, fmt.Sprint(i.Gen, len(i.Entries), i.Newer), all)
		default:
			sc.check(name, i == nil, true)
		}
	case "entry":
		sc.cmdEntry(a)
	case "as-is": // the entry of PATH in the generation in place has no change
		e, _ := sc.currentEntry(a[0])
		sc.check("action on "+a[0], e.Action, ActionNone)
	case "entries":
		sc.check("entries", len(sc.c.Entries), a[0])
	case "changes": // CHANGED UNRECORDED
		sc.check("changed, unrecorded", fmt.Sprint(sc.c.Changed, " ", sc.c.Unrecorded), all)
	case "held":
		sc.cmdHeld(a)
	case "pinned": // GEN [WHY] or none
		gen, why, ok := sc.store().Pinned()
		got := map[bool]string{true: strconv.Itoa(gen), false: "none"}[ok]
		sc.check("pinned", got, a[0])
		sc.contains("why", why, a[1:])
	case "held-until-commit": // p1 is held, and a generation pinned, exactly while nothing is committed
		cur, err := sc.store().Current()
		sc.must(err)
		_, isHeld := sc.s.Held("p1")
		_, _, isPinned := sc.s.Pinned()
		isCommitted := cur.PlanID == "p1"
		sc.check("held, pinned", fmt.Sprint(isHeld, isPinned), fmt.Sprint(!isCommitted, !isCommitted))
	case "pinned-with-rollback": // GEN: it is pinned exactly if generation 3, of the rollback to it, is in place
		cur, err := sc.store().Current()
		sc.must(err)
		gen, _, isPinned := sc.s.Pinned()
		want := "0 false"
		if cur.Gen == 3 {
			want = a[0] + " true"
		}
		sc.check("pinned", fmt.Sprint(gen, isPinned), want)
	case "held-plans":
		plans, err := sc.store().HeldAll()
		sc.must(err)
		sc.check("held plans", strings.Join(sortedKeys(plans), " "), all)
	case "last-good":
		gen, ok := sc.store().LastGood()
		sc.check("last good", map[bool]string{true: strconv.Itoa(gen), false: "none"}[ok], a[0])
	case "blob": // GEN NAME TEXT
		got, err := sc.store().Blob(sc.number(a[0], 10), a[1])
		if sc.end(err); err == nil {
			sc.check("blob", string(got), a[2])
		}
	case "content": // it is kept
		got, err := sc.store().Content(Checksum([]byte(a[0])))
		if sc.end(err); err == nil {
			sc.check("content", string(got), a[0])
		}
	case "original": // PATH [CONTENT]
		st, content, ok, err := sc.store().Original(sc.at(a[0]))
		sc.must(err)
		sc.check("original", fmt.Sprint(ok, st.Kind != Absent, " ", string(content)),
			fmt.Sprint(true, len(a) > 1, " ", strings.Join(a[1:], "")))
	case "differing":
		got, err := sc.store().Differing()
		sc.must(err)
		sc.check("differing", strings.Join(got, " "), all)
	default:
		return false
	}

	return true
}
