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

// mutant is the writer with one mistake. Its source is laid over the real one for one build, so it is in no other
// build: there is no tag to forget and no branch that is never taken.
type mutant struct {
	name     string
	file     string // below the root of the repository
	old, new string // old is there once
	scenario string
	by       []string // each of these must catch it
}

const (
	bySweep = "sweep"
	byOrder = "order"
	// Which has no one journal for all, and so does lose a rename whose folder was not fsynced.
	byBtrfs = "sweep on btrfs"
)

const (
	inDisk     = "internal/machine/generation/disk.go"
	inTxn      = "internal/machine/generation/txn.go"
	inPublish  = "internal/machine/generation/publish.go"
	inRecovery = "internal/machine/generation/recover.go"
	inRound    = "internal/machine/generation/round.go"
	inVerdict  = "internal/machine/generation/verdict.go"
	inTable    = "internal/machine/activation/table.go"
)

var mutants = []mutant{
	{
		name: "no fsync of files", file: inRound, scenario: "update", by: []string{bySweep, byOrder},
		old: "	for _, f := range r.files {\n		all = append(all, flush{fd: f.fd(), name: f.f.Name()})\n	}\n",
		new: "",
	},
	{
		name: "no fsync of folders", file: inRound, scenario: "update", by: []string{byBtrfs, byOrder},
		old: "slices.Concat(r.folders, r.stay)",
		new: "[]*folder(nil)",
	},
	{
		name: "no journal", file: inTxn, scenario: "update", by: []string{bySweep},
		old: "		err = t.s.disk.renameOver(t.s.dir, journalName+stagedSuffix, journalName)\n",
		new: "",
	},
	{
		// Activation finds the journal before its own commit, and refuses: it does not come to what byOrder looks at.
		name: "COMMIT before staging", file: inTxn, scenario: "update", by: []string{bySweep},
		old: "	_, err := t.round.write(t.s.disk, t.s.gens, itoa(t.m.Gen)+stagedSuffix, ",
		new: `
	j := &Journal{Version: formatVersion, Phase: PhasePublish, Gen: t.m.Gen, Manifest: Checksum(parts[0]), CommitTime: t.s.o.Now()}
	if err := t.s.putJournal(j); err != nil {
		return err
	}
	_, err := t.round.write(t.s.disk, t.s.gens, itoa(t.m.Gen)+stagedSuffix, `,
	},
	{
		name: "temporaries not durable at their rename", file: inTxn, scenario: "fresh node", by: []string{byOrder},
		old: "		err = t.s.stageTarget(&t.round, t.m, dir, i)\n",
		new: "		err = t.s.stageTarget(&t.round, t.m, dir, i)\n" +
			"		t.round.files = t.round.files[:len(t.round.files)-1]\n",
	},
	{
		name: "the staged generation not durable", file: inTxn, scenario: "fresh node", by: []string{byOrder, bySweep},
		old: "	t.round.stay = append(t.round.stay, t.s.gens)\n",
		new: "	t.round.files = nil\n",
	},
	{
		name: "published in the wrong order", file: inPublish, scenario: "update", by: []string{byOrder},
		old: "	for i, e := range m.Entries {\n		if !e.HasChange() {\n			continue\n		}\n		err := s.publishTarget(",
		new: "	for i, e := range slices.Backward(m.Entries) {\n		if !e.HasChange() {\n			continue\n		}\n		err := s.publishTarget(",
	},
	{
		name:     "VERIFY before the targets are durable",
		file:     inPublish,
		scenario: "update",
		by:       []string{byBtrfs, byOrder},
		old:      "s.replaceAfter(r, s.dir, journalName, encode(j))",
		new:      "s.replaceAnyway(s.dir, journalName, encode(j))",
	},
	{
		name:     "VERIFY before the generation has its name for good",
		file:     inPublish,
		scenario: "update",
		by:       []string{byOrder},
		old:      "	r.stay = append(r.stay, s.gens) //",
		new:      "	//",
	},
	{
		name: "a target is written in place", file: inPublish, scenario: "update", by: []string{bySweep, byOrder},
		old: "		return s.disk.rename(dir, tempName(m.Gen, i), base)\n",
		new: `
		fd, err := unix.Openat(dir.fd, base, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, e.New.Mode)
		if err != nil {
			return err
		}
		b, err := s.Content(e.New.SHA256)
		if err == nil {
			_, err = unix.Write(fd, b)
		}
		_ = unix.Fsync(fd)
		_ = unix.Close(fd)
		_ = s.disk.unlink(dir, tempName(m.Gen, i))
		return err
`,
	},
	{
		name: "the gate is not shut", file: inTable, scenario: "update", by: []string{bySweep, byOrder},
		old: "[]step{shutGate, stop, publish}",
		new: "[]step{stop, publish}",
	},
	{
		name:     "the gate is not shut for going back",
		file:     inTable,
		scenario: "rollback",
		by:       []string{bySweep, byOrder},
		old:      "rollbackSteps = []step{shutGate, stop, restore}",
		new:      "rollbackSteps = []step{stop, restore}",
	},
	{
		name: "recovery goes back instead of forward", file: inRecovery, scenario: "update", by: []string{bySweep},
		old: "	if !j.IsUnfinished() {\n		s.sweep",
		new: `
	if j != nil && j.Phase == PhasePublish {
		if m, err := s.readManifest(j.Gen, j.Manifest); err == nil {
			if err := s.undoStaging(m); err != nil {
				return nil, err
			}
		}
		return nil, s.endJournal()
	}
	if !j.IsUnfinished() {
		s.sweep`,
	},
	{
		name: "recovery forgets what was staged", file: inRecovery, scenario: "update", by: []string{bySweep},
		old: "	if inJournal && (",
		new: "	if j == nil || inJournal && (",
	},
	{
		name:     "recovery forgets to publish",
		file:     inRecovery,
		scenario: "update",
		by:       []string{bySweep},
		old:      "		err = s.publish(m, j, way != nil)\n",
		new:      "		err = s.endCommit(&syncRound{}, m, j)\n",
	},
	{
		name: "temporaries are not removed", file: inRound, scenario: "update", by: []string{bySweep},
		old: "	if err := s.sweepFolders(m); err != nil {\n",
		new: "	if err := s.sweepFolders(&manifest{}); err != nil {\n",
	},
	{
		name: "new folders are not listed", file: inTxn, scenario: "fresh node", by: []string{bySweep},
		old: "	t.m.Making = missing\n",
		new: "	t.m.Making = nil\n",
	},
	{
		name: "going back is not recorded first", file: inVerdict, scenario: "rollback", by: []string{bySweep},
		old: "			err = t.commit()\n",
		new: "			err = nil\n",
	},
	{
		name: "mode is forgotten", file: inDisk, scenario: "update", by: []string{bySweep},
		old: "func(mode uint32) error { return unix.Fchmod(fd, mode) })\n",
		new: "func(uint32) error { return nil })\n",
	},
	{
		name: "extended attributes are forgotten", file: inDisk, scenario: "fresh node", by: []string{bySweep},
		old: "	for _, name := range sortedKeys(s.Xattrs) {\n",
		new: "	for _, name := range []string{} {\n",
	},
}

// TestMutants: what finds none of the mistakes proves nothing.
func TestMutants(t *testing.T) {
	good := build(t, "writer", "./writer")
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			writer := m.build(t)
			for _, by := range m.by {
				found := m.seen(t, good, writer, by)
				if found == "" {
					t.Errorf("want the %s to find this mutant", by)
				}
				t.Logf("caught by the %s: %.160s", by, found)
			}
			if !t.Failed() {
				summary.add(func(s *tally) { s.mutants++ })
			}
		})
	}
}

// seen says what one of the checks finds wrong with a mutant.
func (m mutant) seen(t *testing.T, good, writer, by string) string {
	t.Helper()
	sc, err := scenario.Named(m.scenario)
	must(t, err)
	f := filesystems[0]
	if by == byBtrfs {
		f = filesystems[2]
		f.needed(t)
	}
	s := prepare(t, good, f, sc)
	d := newDisk(t, s.filesystem, s.dir)
	s.program(writer)
	s.lay(t, d, s.base, true)
	calls, e, err := traced(filepath.Join(s.dir, "trace"), s.command("step", d)...)
	must(t, err)
	must(t, d.unmount())
	if by == byOrder {
		if b := s.order(d).check(calls, len(sc.Earlier) > 0); b != nil {
			return b[0]
		}
		return ""
	}
	if e.exit != 0 {
		return "it fails by itself: " + e.output
	}
	s.calls = calls
	s.findCommit(t, d)
	return s.hunt(t, d)
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
		t.Fatalf("what the mutant changes is %d times in %s: fix the mutant; want 1:\n%s", n, m.file, m.old)
	}
	changed := filepath.Join(dir, "mutant.go")
	must(t, os.WriteFile(changed, []byte(strings.Replace(string(b), m.old, m.new, 1)), 0o600))
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	return build(t, "mutant", "./writer", "-overlay", filepath.Join(dir, "overlay.json"))
}

// hunt kills the mutant until an invariant breaks, and says which. Every point is tried, in an order that meets all
// phases early, with a cut and without.
func (s *stage) hunt(t *testing.T, d *disk) string {
	t.Helper()
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
