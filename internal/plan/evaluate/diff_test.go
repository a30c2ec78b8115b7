package evaluate

import (
	"testing"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/tape"
)

// TestCompareTargetMeta holds that a change of mode or owner says what they were and what they become. A mode or owner
// that an earlier site has set, and this one leaves open, is a change.
func TestCompareTargetMeta(t *testing.T) {
	was := tape.TargetAns{Exists: true, Dir: true, Mode: 0o755, Owner: "root:root"}
	set := tape.TargetAns{Exists: true, Dir: true, Mode: 0o777, UID: 1000, GID: 1000}
	left := set
	left.Left = &tape.TargetMeta{Mode: 0o755}
	for name, c := range map[string]struct {
		mode  uint32
		owner string
		was   tape.TargetAns
		want  string
	}{
		"mode":           {0o700, "", was, "update mode 0755 becomes 0700"},
		"owner":          {0, "etcd:5", was, "update owner root:root becomes etcd:5"},
		"both":           {0o700, "5:5", was, "update mode 0755 becomes 0700, owner root:root becomes 5:5"},
		"neither":        {0o755, "0:0", was, "none "},
		"mode goes back": {0, "", tape.TargetAns{Exists: true, Dir: true, Mode: 0o700, Left: &tape.TargetMeta{Mode: 0o750}}, "update mode 0700 becomes 0750"},

		"left open, as an older recording has it": {0, "", set, "none "},
		"left open":               {0, "", left, "update mode 0777 becomes 0755"},
		"left open, mode is set":  {0o777, "", left, "update "},
		"left open, owner is set": {0, "1000:1000", left, "update mode 0777 becomes 0755"},
		"left open, both are set": {0o777, "1000:1000", left, "none "},
	} {
		change := compareTarget(desired.File{Path: "/etc/x", Kind: desired.Directory, Mode: c.mode, Owner: c.owner}, c.was)
		if got := change.Action + " " + change.Why; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
