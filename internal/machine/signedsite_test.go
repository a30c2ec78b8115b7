package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
)

// writeState writes a file of a state folder.
func writeState(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// siteWith returns a site whose layers have lists.
func siteWith(lists ...*lang.SignedList) *lang.Site {
	s := &lang.Site{}
	for _, l := range lists {
		s.Layers = append(s.Layers, lang.Layer{List: l})
	}

	return s
}

func TestCheckCounters(t *testing.T) {
	whole := []*lang.SignedList{{Counter: 7}}
	layers := []*lang.SignedList{{Name: "gpu", Counter: 7, NotBelow: 2}, {Name: "rack", Counter: 1}}
	for _, test := range []struct {
		file, text string
		lists      []*lang.SignedList
		want       string // "": accepted
	}{
		{counterFile, "6\n", whole, ""},
		{counterFile, "7", whole, ""},
		{counterFile, "8\n", whole, "Its counter is 7, and this node has run a site with 8"},
		{counterFile, "", whole, "cannot be read"},
		{counterFile, "x", whole, "cannot be read"},
		{counterFile, "-1", whole, "cannot be read"},
		{counterFile, "5 6", whole, "cannot be read"},
		{counterFile, "99999999999999999999999", whole, "cannot be read"},
		{counterFile, "6\n", nil, "It has no site.sha256, and an earlier site of this node had one"},
		{counterFile, "x", nil, "It has no site.sha256"},
		{counterFile, "8\n", layers, ""},
		{notBelowFile, `{"gpu": 7}`, layers, ""},
		{notBelowFile, `{"gpu": 8}`, layers, "The counter of gpu is 7, and this node has accepted a list of this name with not-below 8"},
		{notBelowFile, `{"rack": 2}`, layers, "The counter of rack is 1"},
		{notBelowFile, `{"other": 9}`, layers, ""},
		{notBelowFile, ``, layers, "What this node has accepted cannot be read"},
		{notBelowFile, `null`, layers, "What this node has accepted cannot be read"},
		{notBelowFile, `{"gpu": -1}`, layers, "What this node has accepted cannot be read"},
		{notBelowFile, `{"gpu": 8}`, nil, ""},
		{notBelowFile, `{"gpu": 8}`, whole, ""},
	} {
		dir := t.TempDir()
		writeState(t, dir, test.file, test.text)

		got := checkCounters(dir, test.lists)
		isRefused := got != nil && origin.CodeOf(got) == fault.SiteSignature && strings.Contains(got.Detail, test.want)
		if isRefused != (test.want != "") || got != nil && !isRefused {
			t.Errorf("checkCounters(%v) after %q in %s: got %v, want %q", test.lists, test.text, test.file, got, test.want)
		}
	}
}

func TestCounterFiles(t *testing.T) {
	for name, lists := range map[string][]*lang.SignedList{
		counterFile: {{Counter: 7}}, notBelowFile: {{Name: "gpu", Counter: 7}},
	} {
		folder := t.TempDir()
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := checkCounters(folder, lists); got == nil {
			t.Errorf("checkCounters with a folder in place of %s: got nil, want it refused", name)
		}

		dangling := t.TempDir()
		if err := os.Symlink("nowhere", filepath.Join(dangling, name)); err != nil {
			t.Fatal(err)
		}
		if got := checkCounters(dangling, lists); got == nil || !strings.Contains(got.Detail, "a link that leads nowhere") {
			t.Errorf("checkCounters with a link to nothing: got %v, want it refused as such", got)
		}
		if got := checkCounters(t.TempDir(), lists); got != nil {
			t.Errorf("checkCounters(%v) on a new node: got %v, want nil", lists, got)
		}
	}
}

func TestKeepCounter(t *testing.T) {
	dir := t.TempDir()
	plan := func(lists ...*lang.SignedList) *evaluate.Plan {
		return &evaluate.Plan{Site: siteWith(lists...), Complete: true}
	}
	whole := &lang.SignedList{Counter: 7}
	gpu := func(notBelow uint64) *lang.SignedList {
		return &lang.SignedList{Name: "gpu", Counter: 9, NotBelow: notBelow}
	}

	for _, step := range []struct {
		plan *evaluate.Plan
		file string
		want string
	}{
		{plan(whole), counterFile, "7\n"},
		{plan(gpu(0)), notBelowFile, ""},
		{plan(gpu(5)), notBelowFile, `{"gpu":5}` + "\n"},
		{plan(gpu(3)), notBelowFile, `{"gpu":5}` + "\n"},
		{plan(&lang.SignedList{Name: "a", Counter: 2, NotBelow: 2}, gpu(6)), notBelowFile, `{"a":2,"gpu":6}` + "\n"},
		{plan(gpu(6)), counterFile, "7\n"},
	} {
		KeepCounter(dir, step.plan)
		got, _ := os.ReadFile(filepath.Join(dir, step.file))
		if string(got) != step.want || len(step.plan.Degraded) > 0 {
			t.Errorf("KeepCounter of %v: got %q in %s, degraded %v; want %q",
				step.plan.Site.SignedLists(), got, step.file, step.plan.Degraded, step.want)
		}
	}

	for _, l := range []*lang.SignedList{whole, gpu(1)} {
		p := plan(l)
		KeepCounter(filepath.Join(dir, "none"), p)
		if len(p.Degraded) != 1 || p.Degraded[0].Code != fault.SiteSignature {
			t.Errorf("KeepCounter of %v in a folder that does not exist: got %v, want it degraded", l, p.Degraded)
		}

		p = plan(l)
		p.Complete = false
		KeepCounter(filepath.Join(dir, "none"), p)
		if len(p.Degraded) != 0 {
			t.Errorf("KeepCounter of an incomplete plan: got %v, want nothing", p.Degraded)
		}
	}
}
