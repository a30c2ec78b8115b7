package images

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/commit"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/joined"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// StatementPath is the path of the statement of a sealed image.
const StatementPath = "/usr/lib/prelet/seal.json"

// Statement describes the content of a sealed image. Its fields are documented in docs/reference/seal.md.
type Statement struct {
	FormatVersion int              `json:"format_version"`
	Prelet        string           `json:"prelet"`
	Time          time.Time        `json:"time"`
	Kubelet       image.Kubelet    `json:"kubelet"`
	Site          []sealedFile     `json:"site"`
	Detectors     []sealedDetector `json:"detectors"`
	Checks        []check.Finding  `json:"checks"`
	Removed       []image.Leftover `json:"removed"`
	Warmed        []string         `json:"warmed"` // paths of caches
}

type sealedFile struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// sealedDetector is a detector that is installed and locked.
type sealedDetector struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	SHA256  string `json:"sha256"`
}

// SealOptions are the image, and whether leftovers are removed.
type SealOptions struct {
	lab.Request
	Yes bool
}

// Sealed is the result of sealing an image: the document of `seal -o json`.
type Sealed struct {
	FormatVersion int             `json:"format_version"`
	IsSealed      bool            `json:"sealed"`
	Refused       string          `json:"refused,omitempty"` // why the image is not sealed; "" if it is
	Results       []check.Finding `json:"findings"`
	Statement     *Statement      `json:"statement"` // null if the image is not sealed
	Unchanged     bool            `json:"-"`         // the image was sealed before, and nothing has changed since
}

// end returns the result of sealing an image: its statement, or why it is refused.
func (i *OpenedImage) end(s *Statement, refused string) Sealed {
	return Sealed{
		FormatVersion: 1,
		IsSealed:      refused == "",
		Refused:       refused,
		Results:       i.Results,
		Statement:     s,
	}
}

// Seal checks the image below o.Root ("" is this machine's own root), removes what belongs to the machine on which it
// was built, and writes the statement. Without o.Yes it writes nothing. Findings are in the result; an error is about
// the options or a write.
func Seal(ctx context.Context, e *machine.Env, o SealOptions) (Sealed, error) {
	if err := o.Check(); err != nil {
		return Sealed{}, err
	}
	now, err := BuildTime(e)
	if err != nil {
		return Sealed{}, err
	}
	h := e.Host()
	defer h.Units.Close()

	isAsked := o.Root == "/"
	isRunning := h.Systemd && (o.Root == "" || isAsked)
	if isAsked {
		o.Root = ""
	}
	o.Root = cmp.Or(o.Root, h.Root)

	i, err := OpenImage(ctx, e, o.Request)
	if err != nil {
		return Sealed{}, err
	}
	if o.Yes && i.mustChange() {
		switch {
		case isRunning:
			err = i.checkRunning(ctx, h, isAsked)
		case i.where.Root != "":
			err = i.checkBooted()
		}
		if err != nil {
			return Sealed{}, err
		}
	}
	if why := i.refuse(o.Yes); why != "" {
		return i.end(nil, why), nil
	}

	return i.seal(ctx, now, o.Yes)
}

// refuse returns why the image must not be sealed; "" if it may be.
func (i *OpenedImage) refuse(yes bool) string {
	var removable int
	var byHand []string
	problems := i.countProblems()
	for _, l := range i.in.Found.Leftovers {
		switch {
		case l.Action == image.ByHand:
			byHand = append(byHand, l.Path)
		case isChanged(l):
			removable++
		}
	}
	switch {
	case problems > 0:
		return printer.Count(problems, "check") + " failed"
	case yes && len(byHand) > 0:
		return "nothing was removed, because --yes does not change " + strings.Join(byHand, ", ")
	case !yes && len(byHand)+removable > 0:
		return printer.Count(len(byHand)+removable, "path") + " must not be in an image"
	}

	return ""
}

// countProblems returns the number of problems that prevent sealing, besides leftovers.
func (i *OpenedImage) countProblems() (n int) {
	for _, f := range i.Results {
		if f.State == check.Problem || f.State == check.Unread {
			n++
		}
	}

	return n
}

// checkRunning refuses to remove the identity of a running node. isAsked: the user named the running root.
func (i *OpenedImage) checkRunning(ctx context.Context, h *machine.Host, isAsked bool) error {
	id := joined.Reader{Root: i.in.Root, Now: time.Now}.Identity()
	if isJoined, _ := id.Joined(); isJoined && !isAsked {
		return fault.Usage.Errorf("this machine is the running node %s, and --yes would remove its identity. "+
			"For an image of another root name --root. To make an image of this node: kubectl drain, "+
			"systemctl stop kubelet, prelet seal --yes --root /", cmp.Or(id.Node, h.Hostname))
	}
	u, err := h.Units.Look(ctx, i.in.Unit)
	switch {
	case err != nil:
		return fault.Systemd.Errorf("systemd did not report whether %s runs, which would write its identity again: "+
			"%s. Run the command again when systemd answers, or seal the disk from another machine, with --root",
			i.in.Unit, err)
	case u.Active != "inactive" && u.Active != "failed":
		return fault.Usage.Errorf("%s is %s, and would write its identity again: "+
			"systemctl stop %[1]s, then prelet seal again", i.in.Unit, u.Active)
	}

	return nil
}

// checkBooted refuses to remove the identity of a running node whose root is mounted somewhere else, as in a container:
// below the root of an image there is no /run of systemd.
func (i *OpenedImage) checkBooted() error {
	look, err := i.in.Root.Look("/run/systemd/system", nodefile.FollowAll)
	if err != nil {
		return nil
	}
	look.Close()
	id := joined.Reader{Root: i.in.Root, Now: time.Now}.Identity()
	if isJoined, _ := id.Joined(); !isJoined {
		return nil
	}

	return fault.Usage.Errorf("the machine below %s is running, as node %s, and --yes would remove its identity: "+
		"it has /run/systemd/system. To make an image of this node, run prelet seal on it; "+
		"for an image, unmount its /run", i.where.Root, cmp.Or(id.Node, "of another name"))
}

// seal removes the leftovers, looks again, and writes the statement. An earlier statement of other content is removed
// before the first change, so that the image has none until the new one is written. Without yes nothing has to be
// removed, and it writes nothing: an image is sealed if it has that statement already.
func (i *OpenedImage) seal(ctx context.Context, now time.Time, yes bool) (Sealed, error) {
	file, err := i.findStatement()
	if err != nil {
		return Sealed{}, err
	}
	old := i.readStatement(file)
	statement := image.Leftover{Path: file, Action: image.Delete}
	var removed []image.Leftover
	if yes {
		removed, err = i.remove(ctx, statement)
	}
	if err != nil {
		return Sealed{}, err
	}
	if why := i.refuse(true); yes && why != "" { // the files from before prelet may need a person too
		return i.end(nil, why), nil
	}
	if why := i.refuse(false); why != "" {
		if i.countProblems() == 0 {
			why += ", and something still writes to them"
		}
		return i.end(nil, why), nil
	}

	s, err := i.newStatement(now)
	if err != nil {
		return Sealed{}, err
	}
	if old != nil && len(removed) == 0 && old.isSame(s) {
		if yes {
			_, err = i.warm()
		}
		same := i.end(old, "")
		same.Unchanged = true
		return same, err
	}
	if !yes {
		return i.end(nil, "nothing has to be removed, and without --yes no statement is written"), nil
	}

	if _, err := image.Remove(ctx, i.in.Root, []image.Leftover{statement}); err != nil {
		return Sealed{}, err
	}
	if s.Warmed, err = i.warm(); err != nil {
		return Sealed{}, err
	}
	s.Removed = append(s.Removed, removed...)
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = image.WriteFile(i.in.Root, file, append(text, '\n'))
	}

	return i.end(s, ""), err
}

// mustChange reports whether --yes changes something.
func (i *OpenedImage) mustChange() bool {
	return i.isInterrupted || slices.ContainsFunc(i.in.Found.Leftovers, isChanged)
}

// isChanged reports whether --yes removes or empties a leftover, or restores a file from before prelet.
func isChanged(l image.Leftover) bool {
	return l.Action.IsRemoved() || l.Action == image.Restore
}

// remove restores the files from before prelet, and removes the leftovers. Before them it removes an earlier statement.
// If the files from before prelet need a person, nothing else is removed.
func (i *OpenedImage) remove(ctx context.Context, statement image.Leftover) (done []image.Leftover, err error) {
	if !i.mustChange() {
		return nil, nil
	}

	if err := i.checkLock(); err != nil {
		return nil, err
	}
	if _, err := image.Remove(ctx, i.in.Root, []image.Leftover{statement}); err != nil {
		return nil, err
	}
	if i.isInterrupted {
		err := i.withStore(ctx, func(s *generation.Store) error {
			_, err := s.Recover()
			return err
		})
		i.look()
		if err != nil || i.refuse(true) != "" {
			return nil, err
		}
	}
	done, err = i.putBack(ctx)
	if err != nil || i.refuse(true) != "" {
		return nil, err
	}
	removed, err := image.Remove(ctx, i.in.Root, i.in.Found.Leftovers)
	if err != nil {
		return nil, err
	}
	i.look()

	return append(done, removed...), nil
}

// checkLock refuses while another prelet works on the image.
func (i *OpenedImage) checkLock() error {
	store, err := generation.OpenReadOnly(i.storeOptions())
	if err != nil { // the state is missing, or no process could use it
		return nil
	}
	defer store.Close()
	if pid, isHeld := store.LockHolder(); isHeld {
		return fault.Locked.Errorf("process %d, another prelet, works on the image: wait for it to end", pid)
	}

	return nil
}

// warm keeps the output of the kubelet's binary, so that the first boot does not start it. That is the only cache.
func (i *OpenedImage) warm() ([]string, error) {
	if i.keep == nil {
		return []string{}, nil
	}
	if err := os.MkdirAll(i.where.StateDir(), 0o700); err != nil {
		return nil, fault.CannotWrite.Errorf("%s", err)
	}
	cache := filepath.Join(i.where.StateDir(), kubeletbin.CacheFile)
	if err := commit.WriteIfChanged(cache, i.keep); err != nil {
		return nil, fault.CannotWrite.Errorf("%s: %s", image.Cache, err)
	}

	return []string{image.Cache}, nil
}

// findStatement returns the path of the statement without links above it.
func (i *OpenedImage) findStatement() (string, error) {
	folder, err := i.in.Root.Look(path.Dir(path.Dir(StatementPath)), nodefile.FollowAll)
	if err != nil {
		return "", fault.Usage.Errorf("this is not the root of an image: %s", err)
	}
	defer folder.Close()

	return path.Join(folder.Path(), "prelet", path.Base(StatementPath)), nil
}

// readStatement returns the statement of an earlier seal; nil if there is none, or none that can be read.
func (i *OpenedImage) readStatement(file string) *Statement {
	text, f := i.in.Root.Bytes(file)
	if f != nil {
		return nil
	}
	var s Statement
	if json.Unmarshal(text, &s) != nil {
		return nil
	}

	return &s
}

// newStatement returns the statement of the image as it is. The error is that of the lock of a detector.
func (i *OpenedImage) newStatement(now time.Time) (*Statement, error) {
	s := &Statement{
		FormatVersion: 1,
		Prelet:        i.env.Version,
		Time:          now,
		Kubelet:       i.in.Kubelet,
		Site:          []sealedFile{},
		Detectors:     []sealedDetector{},
		Checks:        []check.Finding{},
		Removed:       []image.Leftover{},
	}
	for _, f := range i.in.Site.Files {
		sum := nodefile.Checksum([]byte(f.Text))
		s.Site = append(s.Site, sealedFile{Path: i.onNode(f.Name), SHA256: sum})
	}
	host := i.env.DetectorHost(i.where.Where)
	for _, r := range i.in.Detectors {
		if !r.Installed || !r.Locked {
			continue
		}
		l, err := host.Lock(r.Name)
		if err != nil {
			return nil, fault.DetectorFailed.Errorf("the lock of detector %s cannot be used: %s. "+
				"Try: prelet detectors lock %s", r.Name, err, r.Program)
		}
		s.Detectors = append(s.Detectors, sealedDetector{r.Name, r.Version, r.Program, l.SHA256})
	}
	for _, f := range i.Results {
		if f.State != check.Skipped {
			s.Checks = append(s.Checks, check.Finding{Check: f.Check, State: f.State, Summary: f.Summary})
		}
	}

	return s, nil
}

// onNode returns a path below the root as the node sees it.
func (i *OpenedImage) onNode(file string) string {
	return path.Join("/", strings.TrimPrefix(file, i.where.Root))
}

// isSame reports whether two statements are about the same image, whenever and from whatever it was sealed.
func (s *Statement) isSame(other *Statement) bool {
	a, b := *s, *other
	a.Time, a.Removed, a.Warmed = b.Time, b.Removed, b.Warmed

	textA, errA := json.Marshal(a)
	textB, errB := json.Marshal(b)

	return errA == nil && errB == nil && bytes.Equal(textA, textB)
}

// maxEpoch is the last second that a time in JSON can have: that of the year 9999.
const maxEpoch = 253402300799

// BuildTime returns the time of a build: $SOURCE_DATE_EPOCH in seconds, or now if that is not set.
func BuildTime(e *machine.Env) (time.Time, error) {
	text := e.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now().UTC().Truncate(time.Second), nil
	}

	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > maxEpoch {
		return time.Time{}, fault.Usage.Errorf("invalid $SOURCE_DATE_EPOCH %q: it must be a number of seconds since "+
			"1970, as date +%%s prints it; unset it for the time of now", text)
	}

	return time.Unix(seconds, 0).UTC(), nil
}
