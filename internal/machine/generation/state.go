package generation

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// Kind and FileState are those of a managed file.
type (
	Kind      = nodefile.Kind
	FileState = nodefile.FileState
)

// The kinds of a target. Everything else (links, pipes, devices) is refused.
const (
	Absent = nodefile.Absent
	File   = nodefile.File
	Dir    = nodefile.Dir
)

// Keep as a mode, uid or gid leaves the value unchanged. A new target gets the owner of the folder above, and mode
// 0644, 0600 for a secret, 0755 for a folder.
const Keep = -1

// MaxContent is the size in bytes above which a file is neither read nor written.
const MaxContent = nodefile.MaxContent

// maxBlob is the size in bytes above which a blob is not kept. A plan and its recording have the contents of files, in
// which JSON may need six bytes for one.
const maxBlob = 256 << 20

// maxMode are the permission bits with setuid, setgid and sticky.
const maxMode = 0o7777

// Target is a path and its planned state. Missing folders above it are created (0755).
type Target struct {
	Path    string // absolute and clean, without StoreConfig.Root
	Kind    Kind   // Absent: the target is removed (a folder only when empty)
	Content []byte // of a File
	Mode    int    // permission bits, or Keep; it and the owner have no meaning for Absent
	UID     int    // or Keep
	GID     int    // or Keep

	CreateOnly bool // written only if it does not exist; never overwritten, never removed
	Secret     bool // contains a secret: mode Keep means 0600. Recorded so that it is never printed
	// Forget, of an Absent target, keeps its old content in this generation and never restores it automatically:
	// neither when the target is dropped, nor on a rollback.
	Forget bool

	// Seen is the state that the caller planned for, or nil. Begin fails with ErrChanged if the target differs from it.
	Seen *FileState

	Mount string // the mount point of the target; "": that of the generation in place, or not known

	// MayStay, of a target of the generation in place, leaves it as it is where it cannot be compared or changed: it
	// stays managed, and differs.
	MayStay bool

	xattrs map[string][]byte // of a rollback: the attributes to restore; nil: those of the existing file
}

// TargetOf returns the target that gives a path a state. content is that of a File.
func TargetOf(path string, st FileState, content []byte) Target {
	return Target{
		Path:    path,
		Kind:    st.Kind,
		Content: content,
		Mode:    int(st.Mode),
		UID:     st.UID,
		GID:     st.GID,
	}
}

// Proposal is everything that a commit puts in place, in the order of the publish.
type Proposal struct {
	PlanID  string // identity of the plan; opaque here
	Targets []Target
	Blobs   map[string][]byte // kept in the generation by name, such as plan.json, recording.json
	// ContentsOf is the generation whose contents the targets are, or 0 for those of a site.
	ContentsOf int
	// Late returns more blobs. It is called if there is a change to commit; nil: no more blobs.
	Late func() (map[string][]byte, error)
	// Release releases every held plan and the pin with the commit: both happen, or neither.
	Release bool
	Force   bool // make a generation even if every target already is as proposed
	// Above is the highest number of a generation that the caller knows from elsewhere, such as the gate, or 0. The new
	// number is higher, even if the state folder was lost.
	Above int

	// Unjudged, if not nil, is the report (JSON) of a generation that no caller judges: it is good at the end of
	// Publish, which ends the journal.
	Unjudged []byte
}

// Action is the change that a commit makes to one target.
type Action string

// The actions, under the names that a printed plan uses.
const (
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionDelete  Action = "delete"
	ActionRestore Action = "restore" // no longer declared: restored as before the first generation that had it
	ActionKeep    Action = "keep"    // unchanged: not declared any more, or not to be restored; see Entry.Why
	ActionNone    Action = "none"
)

// Entry is one target of a generation, with its states before and after.
type Entry struct {
	Path       string    `json:"path"`
	Action     Action    `json:"action"`
	Old        FileState `json:"old"`      // just before this generation
	New        FileState `json:"new"`      // in this generation
	Original   FileState `json:"original"` // before the first generation that had this target
	CreateOnly bool      `json:"create_only,omitempty"`
	Secret     bool      `json:"secret,omitempty"`
	Dropped    bool      `json:"dropped,omitempty"` // no longer declared; from here on not managed
	Drift      bool      `json:"drift,omitempty"`   // changed since the previous generation; the changed bytes are kept
	Why        string    `json:"why,omitempty"`     // of ActionKeep, and why the old content could not be read
	// Mount is the mount point that the target was written to, or "" if it is not known.
	Mount string `json:"mount,omitempty"`
}

// Phase is the step of a commit that the journal records.
type Phase string

// The phases of a journal. Without a journal no transaction is in progress.
const (
	PhasePublish  Phase = "publish"  // committed; targets may be a mixture
	PhaseVerify   Phase = "verify"   // published; awaits its verdict
	PhaseRollback Phase = "rollback" // the rollback is committed; targets may be a mixture
)

// Status is how far a generation has come, up to its verdict.
type Status string

// The statuses of a generation.
const (
	StatusPending    Status = "pending"    // in place, not yet judged
	StatusGood       Status = "good"       // judged good
	StatusRolledBack Status = "rolledback" // left by a rollback; Info.Why has the reason
	StatusRestored   Status = "restored"   // put in place by a rollback, not judged itself
	StatusSuperseded Status = "superseded" // followed by another before it was judged
)

// Info is the summary of a generation: its manifest without contents, and its status.
type Info struct {
	Gen      int
	Parent   int // the generation in place before, 0: none
	Time     time.Time
	PlanID   string
	Status   Status
	Why      string
	Restores int // of a rollback: the generation whose contents it restores, 0 for those before prelet; else -1
	Entries  []Entry
	Retired  []string // files that were removed after its verdict
	Unjudged bool     // it is good without a report, or with that of its commit: no verdict made it so
	Newer    bool     // a newer prelet made it; fields that this one cannot read are zero
}

// checkPath refuses every path that is not an absolute, clean path below the root.
func checkPath(p string) error {
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not an absolute, clean path of a file", p)
	case strings.ContainsAny(p, "\x00\n"):
		return fmt.Errorf("%q contains a NUL or a line break", p)
	case len(p) > 4000:
		return fmt.Errorf("a path of %d bytes is too long", len(p))
	}

	return nil
}
