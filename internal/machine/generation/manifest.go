package generation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/texts"
)

// manifest is the first line of generations/N: everything about a generation that never changes.
type manifest struct {
	Version  int       `json:"version"`
	Gen      int       `json:"gen"`
	Parent   int       `json:"parent"` // the generation in place before, 0: none
	Time     time.Time `json:"time"`
	PlanID   string    `json:"plan_id"`
	Restores *int      `json:"restores,omitempty"` // of a rollback: the generation that it restores
	Entries  []Entry   `json:"entries"`
	Folders  []string  `json:"folders,omitempty"` // created by prelet, in use by this generation
	Leaving  []string  `json:"leaving,omitempty"` // created by prelet, no longer in use: removed when empty
	Making   []string  `json:"making,omitempty"`  // created by this commit: removed if it is never committed
	Judged   *status   `json:"judged,omitempty"`  // the status after the publish, if no caller judges the generation
	Parts    []part    `json:"parts,omitempty"`   // the bytes after the manifest in the file
}

// status is generations/N.status.json: the verdict on a generation.
type status struct {
	Version int             `json:"version"`
	Gen     int             `json:"gen,omitempty"` // 0 within a manifest
	Status  Status          `json:"status"`
	Why     string          `json:"why,omitempty"`
	Time    time.Time       `json:"time"`
	Retired []string        `json:"retired,omitempty"` // targets that were removed within the generation
	Report  json.RawMessage `json:"report,omitempty"`  // of the caller that judged
}

// blobName has no counts of characters, which would make it fifty times as large.
var blobName = texts.LazyRegexp(`^[a-z][a-z0-9_-]*(\.[a-z0-9]+)?$`)

func isBlobName(name string) bool {
	const maxStem, maxExtension = 61, 16
	stem, extension, _ := strings.Cut(name, ".")

	return len(stem) <= maxStem && len(extension) <= maxExtension && blobName().MatchString(name)
}

// tempName returns the name of the temporary of the i-th target of a generation. It does not contain the target's
// name, so that no name is too long.
func tempName(gen, i int) string {
	return fmt.Sprintf(".prelet-%d-%d%s", gen, i, tmpSuffix)
}

// tempPattern matches the temporaries of all generations.
var tempPattern = texts.LazyRegexp(`^\.prelet-[0-9]+-[0-9]+\.tmp$`)

func isTempName(name string) bool { return tempPattern().MatchString(name) }
