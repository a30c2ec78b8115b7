package live

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/nodefile"
	"github.com/prelet/prelet/internal/systemd"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// look reads one target without following a link at its end.
func (l *Live) look(path string) (world.TargetAns, []byte, error) {
	p := l.root().Path(path)
	st, err := os.Lstat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return world.TargetAns{}, nil, nil
	}
	if err != nil {
		return world.TargetAns{}, nil, err
	}
	out := world.TargetAns{Exists: true, Mode: modeBits(st.Mode())}
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		out.UID, out.GID = int(s.Uid), int(s.Gid)
		if out.UID != 0 || out.GID != 0 {
			out.Owner = l.owner(out.UID, out.GID)
		}
	}
	switch {
	case st.IsDir():
		out.Dir = true
		es, err := os.ReadDir(p)
		out.Empty = err == nil && len(es) == 0
		return out, nil, nil
	case !st.Mode().IsRegular():
		return out, nil, fmt.Errorf("it is a %s: prelet replaces files and folders only, and follows no links. Remove it, or name another path", nodefile.KindOf(st.Mode()))
	case st.Size() > generation.MaxContent:
		return out, nil, fmt.Errorf("it has %d bytes, more than a configuration file may have", st.Size())
	}
	b, err := os.ReadFile(p)
	if err != nil {
		return out, nil, err
	}
	h := sha256.Sum256(b)
	out.SHA256 = hex.EncodeToString(h[:])
	return out, b, nil
}

func modeBits(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	for bit, v := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			out |= v
		}
	}
	return out
}

func targetFailure(path string, err error) world.Answer {
	f := nodefile.Failure(path, err)
	if f.Code == fault.Denied {
		f.Next = "Run as root to compare it"
	}
	return world.Answer{Fault: f}
}

// target says what a target holds now. Of a file with a secret only whether it is as planned leaves this place.
func (l *Live) target(r world.TargetReq) world.Answer {
	out, b, err := l.look(r.Path)
	switch {
	case errors.Is(err, fs.ErrPermission): // planning goes on: it works for those who may not write, too
		out.Uncompared = nodefile.Reason(err) + "; run as root to compare it"
		return world.Target.Answer(out)
	case err != nil:
		return targetFailure(r.Path, err)
	}
	if r.Secret {
		if e, ok := l.entry(r.Path); ok {
			out.Drift = drift(e, out)
		}
		out.SHA256 = ""
		if !out.Exists {
			return world.Target.Answer(out)
		}
		want, err := value.ResolvePlaceholders(r.Want, l.Secret)
		if err != nil { // planning goes on: who writes needs the secret, and says so
			name := ""
			if n := value.PlaceholderNames(r.Want); len(n) > 0 {
				name = n[0]
			}
			out.Uncompared = systemd.CredentialFault(name, err).Why
			return world.Target.Answer(out)
		}
		out.Same = want == string(b)
		return world.Target.Answer(out)
	}
	if e, ok := l.entry(r.Path); ok {
		out.Drift = drift(e, out)
		if e.Secret { // planned without a secret now, but what is there holds one
			return world.Target.Answer(out)
		}
	}
	if utf8.Valid(b) {
		out.Text = string(b)
	}
	return world.Target.Answer(out)
}

func drift(e generation.Entry, now world.TargetAns) string {
	switch {
	case e.CreateOnly || e.Dropped:
		return ""
	case e.New.Kind == generation.Absent && now.Exists:
		return "it came since"
	case e.New.Kind != generation.Absent && !now.Exists:
		return "it is gone"
	case e.New.Kind == generation.File && now.SHA256 != e.New.SHA256:
		return "its content was changed"
	case e.New.Kind != generation.Absent && now.Mode != e.New.Mode:
		return fmt.Sprintf("its mode was changed from %04o to %04o", e.New.Mode, now.Mode)
	case e.New.Kind != generation.Absent && (now.UID != e.New.UID || now.GID != e.New.GID):
		return fmt.Sprintf("its owner was changed from %d:%d to %d:%d", e.New.UID, e.New.GID, now.UID, now.GID)
	}
	return ""
}

// entry is what the generation in place made of a target.
func (l *Live) entry(path string) (generation.Entry, bool) {
	if l.o.Store == nil {
		return generation.Entry{}, false
	}
	cur, err := l.o.Store.Current()
	if err != nil || cur == nil {
		return generation.Entry{}, false
	}
	for _, e := range cur.Entries {
		if e.Path == path {
			return e, true
		}
	}
	return generation.Entry{}, false
}

// original is what a target held before prelet ever wrote it; while no generation has it, what it holds now.
func (l *Live) original(r world.OriginalReq) world.Answer {
	if l.o.Store != nil {
		st, b, ok, err := l.o.Store.Original(r.Path)
		if err != nil {
			return world.Answer{Fault: nodefile.Unusable("what %s held before prelet: %s", r.Path, err)}
		}
		if ok {
			out := world.TargetAns{Exists: st.Kind != generation.Absent, Dir: st.Kind == generation.Dir, Mode: st.Mode, UID: st.UID, GID: st.GID, SHA256: st.SHA256}
			if utf8.Valid(b) {
				out.Text = string(b)
			}
			return world.Original.Answer(out)
		}
	}
	out, b, err := l.look(r.Path)
	if err != nil {
		return targetFailure(r.Path, err)
	}
	if !utf8.Valid(b) {
		return world.Answer{Fault: nodefile.Unusable("%s is no UTF-8 text", r.Path)}
	}
	out.Text = string(b)
	return world.Original.Answer(out)
}

// managed is what the generation in place holds, and what would become of each target that the site no longer
// declares. The rule is generation's.
func (l *Live) managed() world.Answer {
	out := world.ManagedAns{Targets: []world.ManagedTarget{}}
	if l.o.Store == nil {
		return world.Managed.Answer(out)
	}
	cur, err := l.o.Store.Current()
	if err != nil {
		return world.Answer{Fault: nodefile.Unusable("the generation in place: %s", err)}
	}
	if cur == nil {
		return world.Managed.Answer(out)
	}
	out.Generation = cur.Gen
	purposes := l.purposes(cur.Gen)
	c, err := l.o.Store.Compare(generation.Proposal{})
	if err != nil {
		return world.Answer{Fault: nodefile.Unusable("the generation in place: %s", err)}
	}
	for _, e := range c.Entries {
		out.Targets = append(out.Targets, world.ManagedTarget{Path: e.Path, Purpose: purposes[e.Path], Action: string(e.Action), Why: e.Why})
	}
	return world.Managed.Answer(out)
}

// purposes are what the targets of a generation are for, by its plan.
func (l *Live) purposes(gen int) map[string]string {
	out := map[string]string{}
	b, err := l.o.Store.Blob(gen, "plan.json")
	if err != nil {
		return out
	}
	var p struct {
		Files []struct {
			Path    string `json:"path"`
			Purpose string `json:"purpose"`
		} `json:"files"`
	}
	if json.Unmarshal(b, &p) == nil {
		for _, f := range p.Files {
			out[f.Path] = f.Purpose
		}
	}
	return out
}
