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
	if killed == nil {
		newScene(t).Play(lines)
		return
	}
	kill := &killAt{}
	defer func() {
		if t.Failed() {
			t.Logf("killed at operation %d of %s", kill.at, killed[0])
		}
	}()
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
	disk := script.Disk{T: t, Path: sc.disk}
	sc.Player = script.New(t, script.Node{
		Commands: sc.commands(disk.Commands()),
		Facts:    script.All(disk.Facts(), sc.facts()),
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
	known := map[string]error{
		"nothing": ErrNothing, "changed": ErrChanged, "superseded": ErrSuperseded, "no-generation": ErrNoGeneration,
		"newer": ErrNewer, "deadline": context.DeadlineExceeded, "ENOENT": unix.ENOENT, "ENOSPC": unix.ENOSPC,
		"EBUSY": unix.EBUSY, "EROFS": unix.EROFS, "EFBIG": unix.EFBIG,
	}[code]

	return known != nil && errors.Is(err, known) || string(fault.CodeOf(err)) == code
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
	return script.All(disk, map[string]script.Command{
		"refused":  sc.refused,
		"die":      sc.die,
		"snapshot": sc.takeSnapshot,
		"same":     sc.same,
		"limit":    sc.limit,
		"mount": func(a []string) error {
			err := disk["mount"](a)
			if err != nil && a[1] != "none" {
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
	now := sc.look()
	switch a[0] {
	case "inodes":
		return compare(now, then.tree)
	case "tree":
		return compare(nodes(now), nodes(then.tree))
	case "file":
		return compare(now[sc.at(a[2])], then.tree[sc.at(a[2])])
	case "files":
		return compare(filesOf(nodes(now)), filesOf(nodes(then.tree)))
	case "remaining":
		var changed []error
		for path, n := range now {
			if n.mode.IsRegular() && !strings.Contains(path, "/.prelet-") {
				changed = append(changed, compare(n, then.tree[path]))
			}
		}
		return errors.Join(changed...)
	case "journal":
		j, err := sc.store().Journal()
		sc.Must(err)
		if !then.journal.Same(j) || !j.Same(then.journal) || len(a) > 2 && j.CommitMono <= then.journal.CommitMono {
			return fmt.Errorf("got %+v, then %+v", j, then.journal)
		}
		return nil
	}
	sc.t.Fatalf("%s: got %q, want what can be compared", sc.Line, a[0])

	return nil
}

// filesOf returns the files of a tree.
func filesOf(tree map[string]node) map[string]node {
	maps.DeleteFunc(tree, func(_ string, n node) bool { return !n.mode.IsRegular() })

	return tree
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
		"newer": func() error { // of a later version
			sc.close()
			if a[0] == "state/"+heldName {
				return write(encode(&held{Version: formatVersion + 1}))
			}
			sc.asNewer(strings.TrimPrefix(a[0], "state/"))
			return nil
		},
		"rot": func() error { // CONTENT: a byte of this content of a generation is another one
			pack, err := sc.store().pack(sc.number(filepath.Base(path)))
			sc.Must(err)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			sc.Must(err)
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), pack.offset(pack.findContent(Checksum([]byte(a[2])))))
			return err
		},
	}
}

// power durable: what is there stays when the power is cut, and of what comes, what is fsynced. power cut [adverse]:
// see power.
func (sc *scene) changePower(a []string) error {
	if a[0] == "durable" {
		sc.store()
		sc.power = arm(sc.box)
		return nil
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
	how := strings.Join(a, "")
	if how == "none" || how == "read-only" {
		sc.close()
	}
	switch how {
	case "":
		sc.s, err = Open(sc.t.Context(), sc.o)
	case "read-only":
		sc.s, err = OpenReadOnly(sc.o)
	case "other":
		var s *Store
		if s, err = Open(sc.soon(), sc.o); err == nil {
			sc.other = s
			sc.t.Cleanup(func() { s.Close() })
		}
	case "swap":
		sc.s, sc.other = sc.other, sc.s
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
	}

	return sc.older.Close()
}

// apply ID TARGET… [+good] [+unchanged [+or-nothing]]: +good judges it, +unchanged is of a proposal that must change
// no target, and +or-nothing of one that may be recorded already.
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
	}

	return sc.store().Retire(gen, sc.at(text))
}

// rollback FROM TO WHY [+hold] [+judge] [+without=PATH…]: FROM may be current; +judge awaits a verdict.
func (sc *scene) rollback(a []string) (err error) {
	var without []string
	for _, option := range a[3:] {
		if path, is := strings.CutPrefix(option, "+without="); is {
			without = append(without, sc.at(path))
		}
	}
	from, to, isHeld := a[0], sc.number(a[1]), slices.Contains(a, "+hold")
	if from == "current" {
		from = strconv.Itoa(sc.current().Gen)
	}
	if slices.Contains(a, "+judge") {
		sc.gen, err = sc.store().RollbackToJudge(sc.number(from), to, a[2], isHeld, nil, without...)
		return err
	}
	sc.gen, err = sc.store().Rollback(sc.number(from), to, a[2], isHeld, nil)

	return err
}

// hold plan ID WHY, hold generation GEN WHY, hold none.
func (sc *scene) hold(a []string) error {
	switch a[0] {
	case "plan":
		return sc.store().Hold(a[1], a[2])
	case "generation":
		return sc.store().Pin(sc.number(a[1]), a[2])
	}

	return sc.store().Release()
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
	}

	return err
}

// facts are those of a store, in the order of the language's page.
func (sc *scene) facts() map[string]script.Fact {
	text := func(get func() string) script.Fact {
		return script.Fact{Get: func([]string) (string, error) { return cmp.Or(get(), "none"), nil }}
	}
	yes := func(is func() bool) script.Fact {
		return text(func() string { return map[bool]string{true: "yes", false: "no"}[is()] })
	}
	number := func(n *int) script.Fact { return text(func() string { return strconv.Itoa(*n) }) }
	list := func(get func() ([]string, error)) script.Fact {
		return script.Fact{Get: func([]string) (string, error) {
			all, err := get()
			return cmp.Or(strings.Join(all, " "), "none"), err
		}}
	}

	return map[string]script.Fact{
		"gen":         number(&sc.gen),
		"tries":       number(&sc.tries),
		"operations":  number(&sc.operations),
		"last-good":   text(sc.lastGood),
		"journal":     {Get: sc.journal},
		"generations": list(sc.generations),
		"in-place":    text(sc.inPlace),
		"why":         text(func() string { return sc.current().Why }),
		"pinned":      text(sc.pinned),
		"pinned-why":  text(sc.pinnedWhy),
		"held":        {Args: 1, Get: sc.held},
		"held-plans": list(func() ([]string, error) {
			plans, err := sc.store().HeldAll()
			return sortedKeys(plans), err
		}),
		"aside": text(func() string {
			aside := sc.store().FindAside()
			if aside == nil {
				return ""
			}
			return aside.String()
		}),
		"mixed": yes(func() bool {
			over := sc.store().StartsOver()
			return over != nil && over.IsMixed
		}),
		"read-only": yes(func() bool { return sc.store().ReadOnly() != nil }),
		"lock":      text(sc.lockHolder),
		"ballast": yes(func() bool { // space is reserved for a rollback
			i, err := os.Stat(sc.disk("state/" + lockName))
			sc.Must(err)
			return i.Size() >= ballastMin
		}),
		"limit": {Args: 1, Get: func([]string) (string, error) {
			return map[bool]string{true: "none", false: "set"}[sc.stop == nil], nil
		}},
		"litter":    list(func() ([]string, error) { return sc.litter(), nil }),
		"differing": list(func() ([]string, error) { return sc.store().Differing() }),
		"warnings":  list(func() ([]string, error) { return sc.warnings, nil }),
		"changes":   text(sc.changes),
		"entries":   text(func() string { return strconv.Itoa(len(sc.c.Entries)) }),
		"entry":     {Args: 1, Get: sc.entry},
		"recorded":  {Args: 1, Get: sc.recorded},
		"drift":     {Args: 1, Get: sc.drift},
		"blob":      {Args: 2, Get: sc.blob},
		"content":   {Args: 1, Get: sc.content},
		"original":  {Args: 1, Get: sc.original},
	}
}

func (sc *scene) lastGood() string {
	gen, ok := sc.store().LastGood()

	return map[bool]string{true: strconv.Itoa(gen)}[ok]
}

// journal is PHASE gen=N [from=N to=N] [tries=N@BOOT] [mono]; mono: the clock of the commit is known.
func (sc *scene) journal([]string) (string, error) {
	j, err := sc.store().Journal()
	if j == nil {
		return "none", err
	}
	got := fmt.Sprintf("%s gen=%d", j.Phase, j.Gen)
	if j.From != 0 {
		got += fmt.Sprintf(" from=%d to=%d", j.From, j.To)
	}
	if j.Tries != 0 {
		got += fmt.Sprintf(" tries=%d@%s", j.Tries, j.BootID)
	}
	if j.CommitMono != 0 {
		got += " mono"
	}

	return got, err
}

// generations are GEN=STATUS[,restores=GEN].
func (sc *scene) generations() (all []string, err error) {
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

// inPlace is GEN ENTRIES NEWER.
func (sc *scene) inPlace() string {
	i := sc.current()
	if i == nil {
		return ""
	}

	return fmt.Sprint(i.Gen, len(i.Entries), i.Newer)
}

func (sc *scene) pinned() string {
	gen, _, ok := sc.store().Pinned()

	return map[bool]string{true: strconv.Itoa(gen)}[ok]
}

func (sc *scene) pinnedWhy() string {
	_, why, _ := sc.store().Pinned()

	return why
}

// held PLAN is the reason.
func (sc *scene) held(a []string) (string, error) {
	why, ok := sc.store().Held(a[0])

	return map[bool]string{true: why, false: "none"}[ok], nil
}

// lockHolder is this or another process.
func (sc *scene) lockHolder() string {
	s, err := OpenReadOnly(sc.o)
	sc.Must(err)
	defer s.Close()
	pid, ok := s.LockHolder()
	switch {
	case !ok:
		return ""
	case pid == os.Getpid():
		return "this"
	}

	return "another"
}

// changes are those of the last comparison.
func (sc *scene) changes() string {
	var all []string
	if sc.c.Changed {
		all = append(all, "changed")
	}
	if sc.c.Unrecorded {
		all = append(all, "unrecorded")
	}

	return strings.Join(all, " ")
}

// entry PATH is the action of the last comparison, with ",drift".
func (sc *scene) entry(a []string) (string, error) {
	e, _ := Info{Entries: sc.c.Entries}.Entry(sc.at(a[0]))

	return string(e.Action) + map[bool]string{true: ",drift"}[e.Drift], nil
}

// recorded PATH is the action of the generation in place.
func (sc *scene) recorded(a []string) (string, error) {
	e, _ := sc.current().Entry(sc.at(a[0]))

	return string(e.Action), nil
}

// drift PATH is how the path differs from the generation in place, which has it.
func (sc *scene) drift(a []string) (string, error) {
	e, ok := sc.current().Entry(sc.at(a[0]))
	now, _, err := sc.store().Observe(sc.at(a[0]))
	if !ok {
		return "no entry", err
	}

	return cmp.Or(e.DescribeDrift(now), "none"), err
}

func (sc *scene) blob(a []string) (string, error) {
	got, err := sc.store().Blob(sc.number(a[0]), a[1])

	return string(got), err
}

// content TEXT is kept, or another text.
func (sc *scene) content(a []string) (string, error) {
	got, err := sc.store().Content(Checksum([]byte(a[0])))
	if string(got) == a[0] {
		return "kept", err
	}

	return string(got), err
}

// original PATH is the content before prelet, or absent.
func (sc *scene) original(a []string) (string, error) {
	st, content, ok, err := sc.store().Original(sc.at(a[0]))
	switch {
	case !ok:
		return "unknown", err
	case st.Kind == Absent:
		return "absent", err
	}

	return string(content), err
}
