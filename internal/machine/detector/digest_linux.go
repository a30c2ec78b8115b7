package detector

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// CacheFile is the name of the file in prelet's folder that has the digests of locked programs, so that a boot need not
// read them again. Each is valid for one file (docs/develop/decisions/0011).
const CacheFile = "detectors.json"

type digest struct {
	nodefile.Identity
	Device uint64 `json:"device"`
	SHA256 string `json:"sha256"`
}

// restTime is how long a program must be unchanged before its digest is kept: longer than the steps in which file
// systems count time. A second change within one step would leave the times as they are.
const restTime = 10 * time.Second

// describeProgram returns the digest that an open program has if it is the locked one, and whether its times would show
// a change. Some file systems have none, and after a jump of the clock they may be in the future.
func (h *Host) describeProgram(j job, program *os.File) (d digest, showsChange bool) {
	var st unix.Stat_t
	err := unix.Fstat(int(program.Fd()), &st)
	d = digest{nodefile.Identify(j.program, &st), st.Dev, j.sha256}

	return d, err == nil && d.showsChange(h.now()) && j.sha256 != ""
}

// showsChange reports whether a change of the program would have changed these times. Images of erofs and squashfs have
// no change time, and show the time of the content.
func (d digest) showsChange(now time.Time) bool {
	rested := now.Sub(time.Unix(0, d.Changed)) > restTime

	return d.Changed > 0 && d.Changed != d.ModTime && rested
}

// hash returns the sha256 of an open program. It does not read the program again if an earlier run found the locked one
// in this file.
func (h *Host) hash(j job, program *os.File) string {
	locked, showsChange := h.describeProgram(j, program)
	if showsChange && slices.Contains(h.kept(), locked) {
		h.verified.Store(j.program, locked)
		return j.sha256
	}

	sum := hashProgram(program)
	now, _ := h.describeProgram(j, program)
	if showsChange && now == locked && sum == j.sha256 {
		h.verified.Store(j.program, locked)
	}

	return sum
}

// readDigests reads the digests that an earlier run kept. There are none if other users may have written them.
func (h *Host) readDigests() (kept []digest) {
	text, f := nodefile.Root("/").TrustedText(h.o.Digests)
	if f != nil || json.Unmarshal([]byte(text), &kept) != nil {
		return nil
	}

	return kept
}

// Digests returns the new content of the cache: the digests of the programs that this host ran. It is nil if there are
// none.
func (h *Host) Digests() []byte {
	var all []digest
	for _, d := range h.verified.Range {
		all = append(all, d.(digest))
	}
	if all == nil {
		return nil
	}
	slices.SortStableFunc(all, func(a, b digest) int { return cmp.Compare(a.Path, b.Path) })
	text, _ := json.Marshal(all) // these types can always be encoded

	return text
}
