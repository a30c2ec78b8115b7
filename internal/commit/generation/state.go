package generation

import (
	"fmt"
	"path"
	"strings"
	"time"
)

// Kind is what a target is. The zero Kind is "absent".
type Kind string

// The kinds of a target. Everything else (links, pipes, devices) is refused.
const (
	Absent Kind = ""
	File   Kind = "file"
	Dir    Kind = "dir"
)

// Keep as a mode, uid or gid: as it is. For something new: the owner of the folder above; mode 0644, 0600 for a secret,
// 0755 for a folder.
const Keep = -1

// MaxContent is the size in bytes above which a file is not read and not written.
const MaxContent = 8 << 20

// State is one target as it is, was or shall be. The zero State is "absent".
type State struct {
	Kind   Kind              `json:"kind,omitempty"`
	SHA256 string            `json:"sha256,omitempty"` // of a file's content, 64 hex digits
	Size   int64             `json:"size,omitempty"`   // of a file, bytes
	Mode   uint32            `json:"mode,omitempty"`   // permission bits with setuid, setgid, sticky: 07777
	UID    int               `json:"uid,omitempty"`
	GID    int               `json:"gid,omitempty"`
	Xattrs map[string][]byte `json:"xattrs,omitempty"` // of a file
}

// Equal says whether both are the same in kind, content, mode and owner. Extended attributes are carried, not compared.
func (s State) Equal(o State) bool {
	return s.sameContent(o) && s.Mode == o.Mode && s.UID == o.UID && s.GID == o.GID
}

// sameContent says whether both are of one kind and, for files, hold the same bytes.
func (s State) sameContent(o State) bool { return s.Kind == o.Kind && s.SHA256 == o.SHA256 }

// Target is one path and what it shall be.
type Target struct {
	Path    string // absolute and clean, without Options.Root
	Kind    Kind   // Absent: it shall be removed (a folder only when empty)
	Content []byte // of a File
	Mode    int    // permission bits, or Keep
	UID     int    // or Keep
	GID     int    // or Keep

	CreateOnly bool // written only where there is nothing; never overwritten, never removed
	Secret     bool // holds a secret: mode Keep means 0600. Carried so that nobody prints it
	Parents    bool // make the folders above it that are missing (0755)
	// Forget, of an Absent target, keeps what it was in this generation's old/ and never puts it back by itself: neither when it
	// is no longer declared, nor when going back.
	Forget bool

	// Seen is what the caller planned on, or nil. Begin fails with ErrChanged when the target is something else by then.
	Seen *State

	Mount string // the mount point that it is on; "": that of the generation in place, or not known

	xattrs map[string][]byte // going back: those of then; nil: those of the file that is there
}

// Proposal is everything that shall be in place, in the order in which it is to be published.
type Proposal struct {
	PlanID  string // identity of the plan; opaque here
	Targets []Target
	Blobs   map[string][]byte // kept in the generation by name, such as plan.json, recording.json
	// Late gives more of them, and is asked when there is something to commit; nil: there are no more.
	Late func() (map[string][]byte, error)
	Note string // kept in the journal; opaque here
	// Release releases every held plan and the pin with the commit: both happen, or neither.
	Release bool
	Force   bool // make a generation even when every target already is as proposed
	// Above is the highest number of a generation that is known from elsewhere, such as the gate, or 0: that of the
	// new one is higher, although the state folder may have been lost.
	Above int

	// Unjudged, if not nil, says that nobody is going to judge: the generation is good as soon as it is published, which ends
	// the journal, and this JSON document is its report.
	Unjudged []byte
}

// Action is what a commit does to one target.
type Action string

// The actions, under the names that a printed plan uses.
const (
	ActionCreate  Action = "create"
	ActionUpdate  Action = "update"
	ActionDelete  Action = "delete"
	ActionRestore Action = "restore" // no longer declared: put back as it was before the first generation that had it
	ActionKeep    Action = "keep"    // no longer declared, or create-only: left alone; Entry.Why says why
	ActionNone    Action = "none"
)

// Entry is one target of a generation.
type Entry struct {
	Path       string `json:"path"`
	Action     Action `json:"action"`
	Old        State  `json:"old"`      // just before this generation
	New        State  `json:"new"`      // in this generation
	Original   State  `json:"original"` // before the first generation that had this target
	CreateOnly bool   `json:"create_only,omitempty"`
	Secret     bool   `json:"secret,omitempty"`
	Dropped    bool   `json:"dropped,omitempty"` // no longer declared; from here on not ours
	Drift      bool   `json:"drift,omitempty"`   // somebody changed it since the generation before; those bytes are kept
	Why        string `json:"why,omitempty"`     // of ActionKeep
	// Adopted is the generation that found the target in place and took it over, or 0: what it was before prelet is
	// not known, and Original is what was found.
	Adopted int `json:"adopted,omitempty"`
	// Mount is the mount point that the target was written to, or "" where that is not known.
	Mount string `json:"mount,omitempty"`
}

// Phase is where a transaction stands.
type Phase string

// The phases of a journal. No journal: nothing is in flight.
const (
	PhasePublish  Phase = "publish"  // committed; targets may be a mixture
	PhaseVerify   Phase = "verify"   // published; nobody said yet whether it is good
	PhaseRollback Phase = "rollback" // going back is committed; targets may be a mixture
)

// Status of a generation, as List tells it.
type Status string

// The statuses of a generation.
const (
	StatusPending    Status = "pending"    // in place, not yet judged
	StatusGood       Status = "good"       // judged good
	StatusRolledBack Status = "rolledback" // left by going back; Info.Why says why
	StatusRestored   Status = "restored"   // in place by going back, not judged itself
	StatusSuperseded Status = "superseded" // followed by another before it was judged
	StatusDamaged    Status = "damaged"    // its manifest cannot be read
)

// Info is one generation, as history tells it.
type Info struct {
	Gen      int
	Time     time.Time
	PlanID   string
	Status   Status
	Why      string
	Restores int // going back: the generation whose contents these are, 0 for as before prelet; else -1
	Entries  []Entry
	Retired  []string // files that went with its verdict
	Folders  []string // made by this or an earlier generation, still in use
	Adopted  bool     // made by Adopt
}

// checkPath refuses what is not an absolute, clean path below the root.
func checkPath(p string) error {
	switch {
	case !path.IsAbs(p) || path.Clean(p) != p || p == "/":
		return fmt.Errorf("%q is not an absolute, clean path of a file", p)
	case strings.ContainsAny(p, "\x00\n"):
		return fmt.Errorf("%q holds a NUL or a line break", p)
	case len(p) > 4000:
		return fmt.Errorf("a path of %d bytes is too long", len(p))
	}
	return nil
}
