package generation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/sample"
	"github.com/prelet/prelet/internal/testing/script"
)

// TestScripts plays the scripts of testdata/scripts, each on a root folder of its own with a state folder in it.
// `go test -run TestScripts/rollbacks` plays one file.
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
			for _, s := range script.Load(t, file) {
				t.Run(s.Name, func(t *testing.T) { playScript(t, s.Lines) })
			}
		})
	}
}

// TestExamples plays the examples of the language's page that are of a store.
func TestExamples(t *testing.T) { script.Examples(t, "store", playScript) }

// playScript plays a script. The lines after "== killed" are those of a process that is killed at a sample of its
// operations, in a full sweep at each, and at last at none, each time in a root folder of its own. Then another process
// carries out the lines after "== then".
func playScript(t *testing.T, lines []script.Line) {
	t.Helper()
	parts, _ := script.Parts(lines)
	killed := parts["killed"]
	if len(parts)-1 > 2 || (parts["then"] == nil) != (killed == nil) {
		t.Fatalf("%s: got %d parts, want none, or killed and then", lines[0], len(parts)-1)
	}
	if killed == nil {
		newScene(t).Play(lines)
		return
	}
	kill := &killAt{}
	first, step := sample.New(t).OneIn(sample.Quarter(4), t.Name())
	for kill.at = 1 + first; !t.Failed(); kill.at += step {
		sc := newScene(t)
		sc.Play(parts[""])
		sc.store()
		kill.seen, sc.stop = 0, kill.hook
		_ = sc.TryLines(killed) // it may die
		sc.stop = nil
		sc.close()
		sc.Play(parts["then"])
		sc.close()
		if t.Failed() {
			t.Logf("killed at operation %d of %s", kill.at, killed[0])
		}
		if kill.seen < kill.at {
			break
		}
	}
	if kill.seen < 3 {
		t.Errorf("got %d operations to be killed at, want 3 or more", kill.seen)
	}
}

// scene is the node of a script: a box, and the processes on it.
type scene struct {
	*box
	*script.Player

	s, other  *Store   // of the process that runs, and of another one; nil: none
	older     *os.File // locked by a process of prelet 0.1.0
	snapshots map[string]snapshot

	stop       func(op, path string) error // fails an operation; nil: none
	operations int                         // since the last snapshot
	power      *power                      // nil: it cannot be cut

	// Of the last command.
	tx       *Txn
	c        *Comparison
	gen      int
	tries    int
	warnings []string
}

type snapshot struct {
	tree    map[string]inode
	journal *Journal
}

func newScene(t *testing.T) *scene {
	t.Helper()
	sc := &scene{snapshots: map[string]snapshot{}}
	sc.use(newBox(t))
	t.Cleanup(func() {
		sc.close()
		sc.s = sc.other
		sc.close()
	})
	disk := script.Disk{T: t, Path: sc.disk}
	sc.Player = script.New(t, script.Node{
		Name:     "store",
		Commands: sc.commands(disk.Commands()),
		Facts:    script.Merge(disk.Facts(), sc.facts()),
		Is:       isError,
		Holds:    sc.holds,
		Replace:  sc.replace,
	})

	return sc
}

// use makes a box the node's.
func (sc *scene) use(b *box) {
	sc.box = b
	b.o.Fault = func(op, path string) error {
		sc.operations++
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
}

// replace returns a word with the values of the node, and a letter with *N at its end N times.
func (sc *scene) replace(word string) string {
	if !strings.ContainsAny(word, "$*") {
		return word
	}
	values := strings.NewReplacer("$PID", strconv.Itoa(os.Getpid()), "$GEN", strconv.Itoa(sc.gen), "$ROOT", sc.root)
	word = values.Replace(word)
	many := manyTimes.FindStringSubmatch(word)
	if many == nil {
		return word
	}

	return many[1] + strings.Repeat(many[2], sc.number(many[3]))
}

var manyTimes = regexp.MustCompile(`^(.*)(\w)\*(\d+)$`)

// holds knows in-place:GEN, and attributes: the file system has those of users.
func (sc *scene) holds(condition string) (bool, error) {
	gen, isGen := strings.CutPrefix(condition, "in-place:")
	switch {
	case isGen:
		current, err := sc.store().Current()

		return err == nil && strconv.Itoa(current.Gen) == gen, err
	case condition == "attributes":
		return unix.Setxattr(sc.root, "user.test", nil, 0) == nil, nil
	}

	return false, fmt.Errorf("%s is unknown", condition)
}

// isError reports whether an error is of this package, an errno or a code.
func isError(err error, code string) bool {
	named := map[string]error{
		"nothing": ErrNothing, "changed": ErrChanged, "superseded": ErrSuperseded, "no-generation": ErrNoGeneration,
		"newer": ErrNewer, "deadline": context.DeadlineExceeded,
	}[code]
	var errno unix.Errno

	return named != nil && errors.Is(err, named) || string(fault.CodeOf(err)) == code ||
		errors.As(err, &errno) && unix.ErrnoName(errno) == code
}

func (sc *scene) number(text string) int {
	sc.t.Helper()

	return sc.Number(text, 10)
}

// store is the open store, which the first command that needs it opens.
func (sc *scene) store() *Store {
	sc.t.Helper()
	if sc.s == nil {
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

// current is the generation in place.
func (sc *scene) current() *Info {
	sc.t.Helper()
	current, err := sc.store().Current()
	sc.Must(err)

	return current
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

// target is [OPTION:]PATH[=CONTENT]; the options are once, secret, dir, absent, forget, a mode, keep (the mode),
// uid=N (with its group), gid=N, and seen.
func (sc *scene) target(text string) Target {
	t := Target{Kind: File, Mode: 0o644, UID: Keep, GID: Keep}
	for {
		option, rest, isOption := strings.Cut(text, ":")
		if !isOption || strings.Contains(option, "/") {
			break
		}
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "uid":
			t.UID, t.GID = sc.number(value), sc.number(value)
		case "gid":
			t.GID = sc.number(value)
		case "seen": // empty, when the plan was made
			t.Seen = &FileState{Kind: File, SHA256: Checksum(nil)}
		case "once":
			t.CreateOnly = true
		case "secret":
			t.Secret, t.Mode = true, Keep
		case "dir":
			t.Kind, t.Mode = Dir, 0o755
		case "absent":
			t.Kind, t.Mode = Absent, 0
		case "forget":
			t.Kind, t.Mode, t.Forget = Absent, Keep, true
		case "forgets": // though it is to be there
			t.Forget = true
		case "keep":
			t.Mode = Keep
		default:
			t.Mode = sc.Number(option, 8)
		}
		text = rest
	}
	path, content, hasContent := strings.Cut(text, "=")
	if t.Path = sc.at(path); hasContent {
		t.Content = []byte(content)
	}

	return t
}

// proposal is ID TARGET… and the options of apply.
func (sc *scene) proposal(a []string) Proposal {
	p := plan(a[0])
	for _, arg := range a[1:] {
		option, value, _ := strings.Cut(arg, "=")
		switch option {
		case "+above":
			p.Above = sc.number(value)
		case "+recording":
			p.Blobs["recording"] = make([]byte, sc.number(value))
		case "+many":
			sc.addMany(&p, strings.Split(value, ","))
		case "+force":
			p.Force = true
		case "+release":
			p.Release = true
		case "+unjudged":
			p.Unjudged = []byte("{}")
		case "+good", "+unchanged", "+or-nothing":
		default:
			if option != "" && option[0] == '+' {
				sc.t.Fatalf("%s: got %v", sc.Line, script.Unknown("option", option))
			}
			p.Targets = append(p.Targets, sc.target(arg))
		}
	}

	return p
}

// addMany FILES CHANGED BLOB CONTENT [ORIGINAL] adds so many files, with another content only in those that are
// changed, and a blob of a size.
func (sc *scene) addMany(p *Proposal, a []string) {
	p.Blobs["recording"] = make([]byte, sc.number(a[2]))
	for i := range sc.number(a[0]) {
		at, content := fmt.Sprintf("/etc/site.d/%d.conf", i), "1"
		if i < sc.number(a[1]) {
			content = a[3]
		}
		if sc.read(at) == "absent" {
			sc.write(at, append(a, "original")[4], 0o644)
		}
		p.Targets = append(p.Targets, file(at, content))
	}
}

// commands are those of a disk, some of them with more, and those of a store.
func (sc *scene) commands(disk map[string]script.Command) map[string]script.Command {
	return script.Merge(disk, map[string]script.Command{
		"refused":  sc.refused,
		"die":      sc.die,
		"snapshot": sc.takeSnapshot,
		"same":     sc.same,
		"limit":    sc.limit,
		"mount": func(a []string) error {
			err := disk["mount"](a)
			if errors.Is(err, unix.EPERM) {
				sc.t.Skip("needs to mount a file system: ", err)
			}
			if a[0] == "/" { // a file system of its own, with real fsyncs
				sc.o.fsync = nil
				sc.Must(os.MkdirAll(sc.disk("."), 0o755))
			}

			return err
		},
		"spoil": func(a []string) error {
			if how := sc.spoilings(a)[a[1]]; how != nil {
				return how()
			}

			return disk["spoil"](a)
		},

		"reboot": func(a []string) error { sc.close(); sc.o.BootID = a[0]; return nil },
		"power":  sc.changePower,
		"open":   sc.openStore,
		"lock":   sc.lock,
		"apply":  sc.applyPlan,
		"stage": func(a []string) (err error) {
			sc.tx, err = sc.store().Begin(sc.proposal(a))
			return err
		},
		"compare": func(a []string) (err error) {
			if sc.c, err = sc.store().Compare(sc.proposal(a)); err == nil {
				sc.warnings = sc.c.WithoutSetID
			}
			return err
		},
		"commit":   func([]string) (err error) { sc.gen, err = sc.tx.Commit(); return err },
		"publish":  func([]string) error { return sc.tx.Publish() },
		"judge":    sc.judge,
		"rollback": sc.rollback,
		"recover":  func([]string) error { _, err := sc.store().Recover(); return err },
		"hold":     sc.hold,
		"store":    sc.do,
	})
}

// refused TEXT COMMAND: the command fails with cannot-write, and nothing has changed.
func (sc *scene) refused(a []string) error {
	sc.store()
	before := sc.look()
	err := sc.Try(a[1:])
	if fault.CodeOf(err) != fault.CannotWrite || !strings.Contains(err.Error(), a[0]) {
		return fmt.Errorf("got %w, want cannot-write and %q", err, a[0])
	}
	if litter := sc.litter(); litter != nil {
		return fmt.Errorf("left behind: got %q, want nothing", litter)
	}

	return compare(sc.look(), before)
}

// compare returns how two looks differ.
func compare(got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got  %v\nwant %v", got, want)
	}

	return nil
}

// die OP:SUFFIX COMMAND: the process of the command dies at the first operation OP on a path with this end; another one
// goes on.
func (sc *scene) die(a []string) error {
	op, suffix, _ := strings.Cut(a[0], ":")
	isDead := false
	sc.store()
	sc.stop = func(o, path string) error {
		isDead = isDead || o == op && strings.HasSuffix(path, suffix)
		return endIf(isDead)
	}
	err := sc.Try(a[1:])
	sc.stop = nil
	sc.close()
	if !isDead || err == nil {
		return fmt.Errorf("got %v, want the process to die", err)
	}

	return nil
}

// snapshot [NAME]: of the tree, and of the journal if a store is open. Operations are counted from here on.
func (sc *scene) takeSnapshot(a []string) (err error) {
	var s snapshot
	s.tree = sc.look()
	if sc.s != nil {
		s.journal, err = sc.s.Journal()
	}
	sc.snapshots[strings.Join(a, "")] = s
	sc.operations = 0

	return err
}

// same WHAT NAME: inodes (nothing was touched), tree (contents and modes), files (those of files), remaining (each file
// is untouched, and others may be gone), file NAME PATH, and journal NAME [later] (it is of the same commit; later:
// with the clock of a later boot).
func (sc *scene) same(a []string) error {
	then, isKnown := sc.snapshots[a[1]]
	if !isKnown {
		sc.t.Fatalf("%s: got no snapshot of this name, want one", sc.Line)
	}
	now, was := sc.look(), maps.Clone(then.tree)
	switch a[0] {
	case "tree":
		return compare(nodes(now), nodes(was))
	case "file":
		return compare(now[sc.at(a[2])], was[sc.at(a[2])])
	case "files":
		isOther := func(_ string, n inode) bool { return !n.mode.IsRegular() }
		maps.DeleteFunc(now, isOther)
		maps.DeleteFunc(was, isOther)
		return compare(nodes(now), nodes(was))
	case "remaining":
		maps.DeleteFunc(now, func(path string, n inode) bool {
			return !n.mode.IsRegular() || strings.Contains(path, "/.prelet-")
		})
		maps.DeleteFunc(was, func(path string, _ inode) bool { _, isLeft := now[path]; return !isLeft })
	case "journal":
		j, err := sc.store().Journal()
		sc.Must(err)
		if !then.journal.Same(j) || !j.Same(then.journal) || len(a) > 2 && j.CommitMono <= then.journal.CommitMono {
			return fmt.Errorf("got %+v, then %+v", j, then.journal)
		}
		return nil
	case "inodes":
	default:
		return script.Unknown("kind", a[0])
	}

	return compare(now, was)
}

// limit umask MODE, size BYTES (of a file), setid no, space none, or space PART [always]: no write to a path with this
// part has space, until what is reserved for a rollback is freed, or always.
func (sc *scene) limit(a []string) error {
	switch a[0] {
	case "umask":
		was := unix.Umask(sc.Number(a[1], 8))
		sc.t.Cleanup(func() { unix.Umask(was) })
	case "size":
		var was unix.Rlimit
		sc.Must(unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
		sc.t.Cleanup(func() { sc.Must(unix.Setrlimit(unix.RLIMIT_FSIZE, &was)) })
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(sc.number(a[1])), Max: was.Max})
	case "setid":
		sc.store()
		forbidSetID(sc.t)
	case "space":
		if sc.stop = nil; a[1] == "none" {
			return nil
		}
		sc.close()
		sc.stop = func(op, path string) error {
			switch {
			case op == opTruncate && filepath.Base(path) == lockName && len(a) == 2:
				sc.stop = nil
			case op == opWrite && strings.Contains(path, a[1]):
				return unix.ENOSPC
			}
			return nil
		}
	default:
		return script.Unknown("limit", a[0])
	}

	return nil
}

// spoilings are the ways to spoil a file that only a store knows.
func (sc *scene) spoilings(a []string) map[string]func() error {
	path := sc.disk(a[0])
	write := func(text []byte) error { return errors.Join(os.RemoveAll(path), os.WriteFile(path, text, 0o600)) }

	return map[string]func() error{
		"empty":   func() error { return write(nil) },
		"garbage": func() error { return write([]byte("{")) },
		"folder":  func() error { return errors.Join(os.RemoveAll(path), os.MkdirAll(path+"/more", 0o700)) },
		"large":   func() error { return os.Truncate(path, MaxContent+1) },
		"newer":   func() error { sc.close(); sc.asNewer(strings.TrimPrefix(a[0], "state/")); return nil },
		"rot": func() error { // CONTENT: a byte of this content of a generation is another one
			pack, err := sc.store().pack(sc.number(filepath.Base(path)))
			sc.Must(err)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			sc.Must(err)
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), pack.offset(pack.find("", Checksum([]byte(a[2])))))
			return err
		},
	}
}

// power durable: what is there stays when the power is cut, and of what comes, what is fsynced. power cut [adverse]:
// see power.
func (sc *scene) changePower(a []string) error {
	switch {
	case a[0] == "durable":
		sc.store()
		sc.power = arm(sc.box)
		return nil
	case a[0] != "cut":
		return script.Unknown("power", a[0])
	case sc.power == nil:
		return errors.New("got no `power durable` before it, want one")
	}
	sc.close()
	boot := sc.o.BootID
	sc.power.adverse = len(a) > 1
	sc.use(sc.power.cut(memory(sc.t), func() bool { return false }))
	sc.power, sc.o.BootID = nil, boot

	return nil
}

// soon is how long another process waits for the lock.
func (sc *scene) soon() context.Context {
	ctx, cancel := context.WithTimeout(sc.t.Context(), 50*time.Millisecond)
	sc.t.Cleanup(cancel)

	return ctx
}

// open, open read-only, open none; open other: another process; open swap: that one goes on.
func (sc *scene) openStore(a []string) (err error) {
	switch strings.Join(a, "") {
	case "":
		sc.s, err = Open(sc.t.Context(), sc.o)
	case "read-only":
		sc.close()
		sc.s, err = OpenReadOnly(sc.o)
	case "other":
		sc.other, err = Open(sc.soon(), sc.o)
	case "swap":
		sc.s, sc.other = sc.other, sc.s
	case "none":
		sc.close()
	default:
		return script.Unknown("process", a[0])
	}

	return err
}

// lock give, lock take: by the process that runs; lock older, lock older-ends: by one of prelet 0.1.0.
func (sc *scene) lock(a []string) (err error) {
	switch a[0] {
	case "give":
		return sc.store().Unlock()
	case "take":
		return sc.store().Relock(sc.soon())
	case "older":
		sc.older, err = os.OpenFile(sc.disk("state/"+lockName), os.O_RDWR|os.O_CREATE, 0o600)
		sc.Must(err)
		return unix.Flock(int(sc.older.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	case "older-ends":
		return sc.older.Close()
	}

	return script.Unknown("lock", a[0])
}

// apply ID TARGET… [+good] [+unchanged [+or-nothing]]: +good judges it; with +unchanged the proposal must change
// no target, and with +or-nothing it may be recorded already.
func (sc *scene) applyPlan(a []string) error {
	p := sc.proposal(a)
	if slices.Contains(a, "+unchanged") {
		c, err := sc.store().Compare(p)
		if sc.Must(err); c.Changed {
			sc.t.Errorf("%s: got a target that changes, want none", sc.Line)
		}
	}
	gen, err := apply(sc.store(), p)
	switch {
	case err == nil && slices.Contains(a, "+good"):
		err = sc.s.Good(gen, nil)
	case errors.Is(err, ErrNothing) && slices.Contains(a, "+or-nothing"):
		gen, err = sc.current().Gen, nil
	}
	sc.gen = gen

	return err
}

// judge GEN good [REPORT], judge GEN unhealthy WHY, judge GEN retired PATH.
func (sc *scene) judge(a []string) error {
	gen, text := sc.number(a[0]), strings.Join(a[2:], " ")
	switch {
	case a[1] == "good" && text == "":
		return sc.store().Good(gen, nil)
	case a[1] == "good":
		return sc.store().Good(gen, []byte(text))
	case a[1] == "unhealthy":
		return sc.store().MarkUnhealthy(gen, text)
	case a[1] == "retired":
		return sc.store().Retire(gen, sc.at(text))
	}

	return script.Unknown("verdict", a[1])
}

// rollback TO [+from=GEN] [+why=TEXT] [+hold] [+judge] [+without=PATH…]: from the generation in place; +judge awaits a
// verdict.
func (sc *scene) rollback(a []string) (err error) {
	from, to, why, isHeld := sc.current().Gen, sc.number(a[0]), "why", slices.Contains(a, "+hold")
	var without []string
	for _, option := range a[1:] {
		switch name, value, _ := strings.Cut(option, "="); name {
		case "+from":
			from = sc.number(value)
		case "+why":
			why = value
		case "+without":
			without = append(without, sc.at(value))
		case "+hold", "+judge":
		default:
			return script.Unknown("option", option)
		}
	}
	if slices.Contains(a, "+judge") {
		sc.gen, err = sc.store().RollbackToJudge(from, to, why, isHeld, nil, without...)
	} else {
		sc.gen, err = sc.store().Rollback(from, to, why, isHeld, nil)
	}

	return err
}

// hold plan ID WHY, hold generation GEN WHY, hold none.
func (sc *scene) hold(a []string) error {
	switch a[0] {
	case "plan":
		return sc.store().Hold(a[1], a[2])
	case "generation":
		return sc.store().Pin(sc.number(a[1]), a[2])
	case "none":
		return sc.store().Release()
	}

	return script.Unknown("hold", a[0])
}

// store collect N, try BOOT, check-rollback FROM TO, newer, checks (before a commit, without a change of the state
// folder), in-place GEN (what this boot is known to have put in place).
func (sc *scene) do(a []string) (err error) {
	switch a[0] {
	case "collect":
		return sc.store().Collect(sc.number(a[1]))
	case "try":
		sc.tries, err = sc.store().AddTry(a[1])
	case "check-rollback":
		_, sc.warnings, err = sc.store().CheckRollback(sc.number(a[1]), sc.number(a[2]))
	case "newer":
		return sc.store().Newer()
	case "checks":
		s, err := OpenReadOnly(sc.o)
		sc.Must(err)
		defer s.Close()
		return s.Checks(nil).First()
	case "in-place":
		sc.close()
		sc.o.InPlace = sc.number(a[1])
	default:
		return script.Unknown("verb", a[0])
	}

	return err
}

// facts are those of a store.
func (sc *scene) facts() map[string]script.Fact {
	get := func(args int, look func(a []string) (any, error)) script.Fact {
		return script.Fact{Args: args, Get: func(a []string) (string, error) {
			got, err := look(a)
			return show(got), err
		}}
	}
	is := func(look func() any) script.Fact {
		return get(0, func([]string) (any, error) { return look(), nil })
	}

	return map[string]script.Fact{
		"gen":         is(func() any { return sc.gen }),
		"tries":       is(func() any { return sc.tries }),
		"operations":  is(func() any { return sc.operations }),
		"journal":     get(0, sc.journal),
		"generations": get(0, sc.generations),
		"last-good":   is(func() any { return keepIf(sc.store().LastGood()) }),
		"why":         is(func() any { return sc.current().Why }),
		"in-place": is(func() any {
			i := sc.current()
			if i == nil {
				return nil
			}
			return fmt.Sprint(i.Gen, len(i.Entries), i.Newer)
		}),

		"held":       get(1, func(a []string) (any, error) { return keepIf(sc.store().Held(a[0])), nil }),
		"pinned":     is(func() any { gen, _, ok := sc.store().Pinned(); return keepIf(gen, ok) }),
		"pinned-why": is(func() any { _, why, ok := sc.store().Pinned(); return keepIf(why, ok) }),
		"held-plans": get(0, func([]string) (any, error) {
			plans, err := sc.store().HeldAll()
			return sortedKeys(plans), err
		}),

		"set-aside-why": is(func() any { aside := sc.store().FindAside(); return keepIf(aside, aside != nil) }),
		"mixed":         is(func() any { over := sc.store().StartsOver(); return over != nil && over.IsMixed }),
		"read-only":     is(func() any { return sc.store().ReadOnly() != nil }),
		"lock": is(func() any {
			s, err := OpenReadOnly(sc.o)
			sc.Must(err)
			defer s.Close()
			pid, ok := s.LockHolder()
			return keepIf(map[bool]string{true: "this", false: "another"}[pid == os.Getpid()], ok)
		}),
		"ballast": is(func() any { // space is reserved for a rollback
			i, err := os.Stat(sc.disk("state/" + lockName))
			sc.Must(err)
			return i.Size() >= ballastMin
		}),
		"limit":  get(1, func([]string) (any, error) { return keepIf("set", sc.stop != nil), nil }),
		"litter": is(func() any { return sc.litter() }),

		"differing": get(0, func([]string) (any, error) { return sc.store().Differing() }),
		"warnings":  is(func() any { return sc.warnings }),
		"changes":   is(sc.changes),
		"entries":   is(func() any { return len(sc.c.Entries) }),
		"entry": get(1, func(a []string) (any, error) {
			e, _ := Info{Entries: sc.c.Entries}.Entry(sc.at(a[0]))
			return string(e.Action) + map[bool]string{true: ",drift"}[e.Drift], nil
		}),
		"recorded": get(1, func(a []string) (any, error) {
			e, _ := sc.current().Entry(sc.at(a[0]))
			return cmp.Or(string(e.Action), "no entry"), nil
		}),
		"drift": get(1, sc.drift),

		"blob": get(2, func(a []string) (any, error) { return sc.store().Blob(sc.number(a[0]), a[1]) }),
		"content": get(1, func(a []string) (any, error) {
			got, err := sc.store().Content(Checksum([]byte(a[0])))
			return keepIf("kept", string(got) == a[0]), err
		}),
		"original": get(1, sc.original),
	}
}

// show returns a fact as text: yes or no, a list, or none.
func show(got any) string {
	switch got := got.(type) {
	case nil:
		return "none"
	case bool:
		return map[bool]string{true: "yes", false: "no"}[got]
	case []byte:
		return string(got)
	case []string:
		return cmp.Or(strings.Join(got, " "), "none")
	}

	return fmt.Sprint(got)
}

// keepIf returns what a store knows, or nil.
func keepIf[T any](got T, ok bool) any {
	if !ok {
		return nil
	}

	return got
}

// journal is PHASE gen=N [from=N to=N] [tries=N@BOOT] [mono]; mono: the clock of the commit is known.
func (sc *scene) journal([]string) (any, error) {
	j, err := sc.store().Journal()
	if j == nil {
		return nil, err
	}
	got := fmt.Sprintf("%s gen=%d", j.Phase, j.Gen)
	if j.From != 0 {
		got += fmt.Sprintf(" from=%d to=%d", j.From, j.To)
	}
	if j.Tries != 0 {
		got += fmt.Sprintf(" tries=%d@%s", j.Tries, j.BootID)
	}

	return got + map[bool]string{true: " mono"}[j.CommitMono != 0], err
}

// generations are GEN=STATUS[,restores=GEN].
func (sc *scene) generations([]string) (any, error) {
	var all []string
	infos, err := sc.store().List()
	for _, i := range infos {
		text := fmt.Sprintf("%d=%s", i.Gen, i.Status)
		if i.Restores >= 0 {
			text += fmt.Sprintf(",restores=%d", i.Restores)
		}
		all = append(all, text)
	}

	return all, err
}

// changes are those of the last comparison.
func (sc *scene) changes() any {
	var all []string
	if sc.c.Changed {
		all = append(all, "changed")
	}
	if sc.c.Unrecorded {
		all = append(all, "unrecorded")
	}

	return all
}

// drift PATH is how the path differs from the generation in place, which has it.
func (sc *scene) drift(a []string) (any, error) {
	e, ok := sc.current().Entry(sc.at(a[0]))
	if !ok {
		return "no entry", nil
	}
	now, _, err := sc.store().Observe(sc.at(a[0]))

	return cmp.Or(e.DescribeDrift(now), "none"), err
}

// original PATH is the content before prelet, or absent.
func (sc *scene) original(a []string) (any, error) {
	st, content, ok, err := sc.store().Original(sc.at(a[0]))
	if ok && st.Kind == Absent {
		return "absent", err
	}

	return keepIf(content, ok), err
}
