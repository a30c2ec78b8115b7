package detector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/testing/growth"
	"github.com/prelet/prelet/plugins/contract"
)

// TestPathsAreBounded: whatever a description matches by, prelet looks at so many entries and no more, follows no
// link under a star, and ends in the detector's time.
func TestPathsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 120 {
		must(t, os.MkdirAll(filepath.Join(dir, "sys/bus/many", fmt.Sprint("a", i)), 0o755))
		for j := range 100 {
			must(t, os.Mkdir(filepath.Join(dir, "sys/bus/many", fmt.Sprint("a", i), fmt.Sprint("b", j)), 0o755))
		}
	}
	must(t, os.MkdirAll(filepath.Join(dir, "sys/devices/card0/driver"), 0o755))
	must(t, os.MkdirAll(filepath.Join(dir, "sys/class/card"), 0o755))
	must(t, os.Symlink("../../devices/card0", filepath.Join(dir, "sys/class/card/card0")))
	must(t, os.Symlink("devices", filepath.Join(dir, "sys/linked")))

	h := New(HostConfig{Root: dir})
	for path, want := range map[string]struct {
		found bool
		err   error
	}{
		"/sys/class/card/card*":        {found: true},
		"/sys/class/card/card*/driver": {},
		"/sys/class/*/card0":           {found: true},
		"/sys/class/*/card0/driver":    {},
		"/sys/linked/card0/driver":     {found: true},
		"/sys/linked/card*/driver":     {found: true}, // the link comes before the star
		"/sys/bus/many/a*/b7":          {found: true},
		"/sys/bus/many/a*/nothing":     {},
		"/sys/bus/many/a*/b*x":         {err: errTooMany},
		"/sys/bus/none/*":              {},
		"/nothing":                     {},
	} {
		found, err := h.anyExists(t.Context(), []string{path})
		if found != want.found || !errors.Is(err, want.err) {
			t.Errorf("%s: got %t, %v; want %t, %v", path, found, err, want.found, want.err)
		}
	}

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := h.anyExists(over, []string{"/sys/bus/many/a*/nothing"}); found || !errors.Is(err, errTooLong) {
		t.Errorf("without time: got %t, %v; want %v", found, err, errTooLong)
	}
}

// TestPatternsAreRefused: a lock whose description matches by what prelet does not look for is refused before the search.
func TestPatternsAreRefused(t *testing.T) {
	b := newBench(t, "good")
	lock := filepath.Join(b.dir, Fragments, "good.json")
	text, err := os.ReadFile(lock)
	must(t, err)
	for _, path := range []string{"/sys/devices/*/*/*/*/*/*/*/nothing", "/*/*/*/*/*/*/nothing", "/sys/*/x", "/proc/*/fd/*", "/sys/bus/*/*/*"} {
		b.write(
			filepath.Join(Fragments, "good.json"),
			[]byte(strings.Replace(string(text), `"always": true`, fmt.Sprintf(`"paths": [%q]`, path), 1)),
			0o644,
		)
		_, ans, _ := b.askFor("good")
		if ans.Code() != fault.DetectorFailed || !strings.Contains(ans.Why(), "match.paths[0]") {
			t.Errorf("%s: got %s: %s; want a lock that cannot be used", path, ans.Name(), ans.Why())
		}
	}
}

// TestLongAnswerIsCheckedFast: an answer that breaks its description with as much as fits is refused in few words. The
// time must not grow with the square of its size.
func TestLongAnswerIsCheckedFast(t *testing.T) {
	var declared []contract.Attribute
	for i := range contract.MaxEntries {
		declared = append(
			declared,
			contract.Attribute{Name: fmt.Sprintf("fact_%058d", i), Type: contract.Type{Kind: contract.String}},
		)
	}
	d := contract.Description{Name: "x", Facts: declared}
	long := func(size int) contract.Answer {
		return contract.Answer{Facts: []contract.Fact{{Name: strings.Repeat("fact_", size/5)}}}
	}
	many := func(size int) (a contract.Answer) {
		for i := range size {
			a.Facts = append(a.Facts, contract.Fact{Name: fmt.Sprintf("facd_%0120d", i)})
		}
		return a
	}
	kind := func(size int) contract.Answer {
		return contract.Answer{Devices: []contract.Device{{Kind: new(strings.Repeat("k", size))}}}
	}
	for name, c := range map[string]struct {
		most int
		make func(size int) contract.Answer
	}{"long": {contract.MaxAnswer, long}, "many": {contract.MaxValues, many}, "kind": {contract.MaxAnswer, kind}} {
		t.Run(name, func(t *testing.T) {
			var err error
			growth.Check(t, c.most/4, func(size int) func() {
				a := c.make(size)
				return func() { _, err = checkAnswer(d, &a, tape.DetectorReq{}) }
			})
			if err == nil || len(err.Error()) > 4000 {
				t.Errorf("got %.100v; want an error of at most 4000 bytes", err)
			}
		})
	}
}
