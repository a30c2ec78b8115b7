package faults

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/test/faults/scenario"
)

// mutant is the writer with one mistake. Its source is laid over the real one for one build, so nothing of it is in any
// other: there is no tag to forget and no branch that is never taken.
type mutant struct {
	name     string
	file     string // below the root of the repository
	old, new string // old stands there once
	scenario string
	by       string // what must catch it
}

const (
	bySweep = "sweep"
	byOrder = "order"
	byBtrfs = "sweep on btrfs" // which has no one journal for all, and so does lose a rename whose folder was not fsynced
)

var mutants = []mutant{
	{"no fsync of files", "internal/generation/disk.go",
		"	err := f.d.fsync(f.fd)\n", "	var err error\n", "update", bySweep},
	{"no fsync of files, seen in the trace", "internal/generation/disk.go",
		"	err := f.d.fsync(f.fd)\n", "	var err error\n", "update", byOrder},
	{"no fsync of folders", "internal/generation/disk.go",
		"	return wrap(ExitCannotWrite, opFsync, f.path, d.fsync(f.fd))\n", "	return nil\n", "update", byOrder},
	{"no fsync of folders, seen on disk", "internal/generation/disk.go",
		"	return wrap(ExitCannotWrite, opFsync, f.path, d.fsync(f.fd))\n", "	return nil\n", "update", byBtrfs},
	{"no journal", "internal/generation/txn.go",
		"		err = t.s.putJournal(j, &visible)\n", "		_ = visible\n", "update", bySweep},
	{"COMMIT before staging", "internal/generation/txn.go",
		"	if err := t.write(c, p, make); err != nil {\n",
		"	t.sha = sum(encode(m))\n	_ = s.putJournal(&Journal{Version: formatVersion, Phase: PhasePublish, Gen: n, Manifest: t.sha, CommitTime: s.o.Now()}, nil)\n	if err := t.write(c, p, make); err != nil {\n", "update", bySweep},
	{"staging not made durable before COMMIT", "internal/generation/txn.go",
		"	return r.sync(s.disk)\n}\n\n// makeFolders", "	return nil\n}\n\n// makeFolders", "fresh node", byOrder},
	{"published in the wrong order", "internal/generation/publish.go",
		"	defer r.close()\n	for i, e := range m.Entries {\n", "	defer r.close()\n	for i, e := range slices.Backward(m.Entries) {\n", "update", byOrder},
	{"VERIFY before the targets are durable", "internal/generation/publish.go",
		"	if err := s.removeFolders(&r, m.Leaving); err != nil {\n		return err\n	}\n	return r.sync(s.disk)\n", "	return s.removeFolders(&r, m.Leaving)\n", "update", byOrder},
	{"VERIFY before the targets are durable, seen on disk", "internal/generation/publish.go",
		"	if err := s.removeFolders(&r, m.Leaving); err != nil {\n		return err\n	}\n	return r.sync(s.disk)\n", "	return s.removeFolders(&r, m.Leaving)\n", "update", byBtrfs},
	{"a target is written in place", "internal/generation/publish.go",
		"		return s.disk.rename(dir, tempOf(m.Gen, i), base)\n",
		"		fd, err := unix.Openat(dir.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, e.New.Mode)\n		if err != nil {\n			return err\n		}\n		b, err := s.Content(e.New.SHA256)\n		if err == nil {\n			_, err = unix.Write(fd, b)\n		}\n		_ = unix.Fsync(fd)\n		_ = unix.Close(fd)\n		_ = s.disk.unlink(dir, tempOf(m.Gen, i))\n		return err\n", "update", bySweep},
	{"the gate is not shut", "internal/activate/apply.go",
		"	if err := m.keepOut(steady, plan.Unit, fmt.Sprintf(\"generation %d is being put in place\", gen)); err != nil {\n", "	if err := error(nil); err != nil {\n", "update", bySweep},
	{"the gate is not shut for going back", "internal/activate/judge.go",
		"	if err := m.keepOut(steady, left.Unit, fmt.Sprintf(\"going back from generation %d: %s\", b.from, b.why)); err != nil {\n", "	if err := error(nil); err != nil {\n", "rollback", bySweep},
	{"recovery goes back instead of forward", "internal/generation/recover.go",
		"	if j.Phase == PhaseVerify {\n		if st", "	if j.Phase == PhasePublish && st != nil {\n		if err := s.undoStaging(st); err != nil {\n			return nil, err\n		}\n		return nil, s.endJournal()\n	}\n	if j.Phase == PhaseVerify {\n		if st", "update", bySweep},
	{"recovery forgets what was staged", "internal/generation/recover.go",
		"	if st != nil && (j == nil || j.Gen != st.Gen) {\n", "	if st != nil && j != nil && j.Gen != st.Gen {\n", "update", bySweep},
	{"temporaries are not listed", "internal/generation/txn.go",
		"			t.staging.Temps = append(t.staging.Temps, path.Join(path.Dir(e.Path), tempOf(n, i)))\n", "			_ = path.Join\n", "update", bySweep},
	{"new folders are not listed", "internal/generation/txn.go",
		"		t.staging.Folders = append(t.staging.Folders, f.path)\n", "		_ = f\n", "fresh node", bySweep},
	{"the list of temporaries is not durable", "internal/generation/txn.go",
		"	if err := s.disk.put(s.dir, stagingName, encode(t.staging), nil); err != nil {\n		return err\n	}\n	if err := s.makeFolders",
		"	if f, err := s.disk.create(s.dir, stagingName); err == nil {\n		_ = f.write(encode(t.staging))\n		_ = f.close()\n	}\n	if err := s.makeFolders", "fresh node", byOrder},
	{"going back is not recorded first", "internal/generation/verdict.go",
		"	return t, t.commit(j)\n", "	return t, nil\n", "rollback", bySweep},
	{"mode and owner are forgotten", "internal/generation/disk.go",
		"	return f.d.do(opChmod, f.path, func() error { return unix.Fchmod(f.fd, s.Mode) })\n", "	return nil\n", "update", bySweep},
	{"extended attributes are forgotten", "internal/generation/disk.go",
		"	for _, name := range sortedKeys(s.Xattrs) {\n", "	for _, name := range []string{} {\n", "fresh node", bySweep},
}

// TestMutants: what finds none of the mistakes proves nothing.
func TestMutants(t *testing.T) {
	good := build(t, "writer", "./writer")
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			sc, err := scenario.Named(m.scenario)
			must(t, err)
			f := filesystems[0]
			if m.by == byBtrfs {
				f = filesystems[2]
				f.needed(t)
			}
			s := prepare(t, good, f, sc)
			d := newDisk(t, s.filesystem, s.dir)
			s.writer = m.build(t)
			s.lay(t, d, s.base, true)
			calls, e, err := traced(filepath.Join(s.dir, "trace"), s.command("step", d, s.run(""))...)
			must(t, err)
			must(t, d.unmount())
			found := ""
			switch m.by {
			case byOrder:
				if b := s.order(d).check(calls, len(sc.Earlier) > 0); b != nil {
					found = b[0]
				}
			case bySweep, byBtrfs:
				if e.exit != 0 {
					found = "it fails by itself: " + e.output
				} else {
					s.calls = calls
					found = s.hunt(t, d)
				}
			}
			if found == "" {
				t.Fatalf("the %s does not notice", m.by)
			}
			summary.add(func(s *tally) { s.mutants++ })
			t.Logf("caught by the %s: %.200s", m.by, found)
		})
	}
}

// build builds the writer with the mistake.
func (m mutant) build(t *testing.T) string {
	t.Helper()
	dir := scratch(t)
	file, err := filepath.Abs(filepath.Join("../..", m.file))
	must(t, err)
	b, err := os.ReadFile(file)
	must(t, err)
	if n := strings.Count(string(b), m.old); n != 1 {
		t.Fatalf("what the mutant changes stands %d times in %s: mend the mutant\n%s", n, m.file, m.old)
	}
	changed := filepath.Join(dir, "mutant.go")
	must(t, os.WriteFile(changed, []byte(strings.Replace(string(b), m.old, m.new, 1)), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	return build(t, "mutant", "./writer", "-overlay", filepath.Join(dir, "overlay.json"))
}

// hunt kills the mutant until an invariant breaks, and says which. Every point is tried, in an order that meets all phases
// early, with a cut and without.
func (s *stage) hunt(t *testing.T, d *disk) string {
	t.Helper()
	s.findCommit(t, d)
	at := points(s.calls, s.dir, false)
	slices.Reverse(at) // the end by itself first
	rest := at[1:]
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for _, k := range at {
		for _, cut := range []bool{true, false} {
			if o := s.kill(t, d, k, cut); o.broken != nil {
				return k.String() + ": " + o.broken[0]
			}
		}
	}
	return ""
}
