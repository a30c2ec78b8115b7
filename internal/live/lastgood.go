package live

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/generation"
	"github.com/prelet/prelet/internal/world"
)

// Past is the recording of the last good generation.
type Past struct {
	Generation int
	Recording  *world.Recording
}

// LastGood reads it; nil if there is none, or if it cannot be read.
func LastGood(s *generation.Store) *Past {
	n, ok := s.LastGood()
	if !ok {
		return nil
	}
	b, err := s.Blob(n, "recording.json")
	if err != nil {
		return nil
	}
	r, err := world.Decode(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	return &Past{n, r}
}

// TrustBlob is the name under which a generation keeps its answers about the cluster's CA, as a recording of their own. Each
// boot of a node that has joined needs them, and the whole recording takes a tenth of such a boot to read.
const TrustBlob = "trust.json"

// verified returns the answers about the cluster's CA of the last good generation.
func (l *Live) verified() []world.Entry {
	if n, ok := l.o.Store.LastGood(); ok {
		if b, err := l.o.Store.Blob(n, TrustBlob); err == nil {
			if r, err := world.Decode(bytes.NewReader(b)); err == nil {
				return r.Entries
			}
		}
	}

	if past := l.Past(); past != nil { // of an older prelet
		return past.Recording.Entries
	}

	return nil
}

// Past returns the recording of this node's last good generation, nil if there is none. It is read once.
func (l *Live) Past() *Past { return l.past() }

// FallBack stands in for a cluster that does not answer rightly, on a node that has joined and has a good
// generation: that generation's answer to the same question, not older than maxAge, marked stale. Only questions to
// the cluster: hardware, files and variables are always live.
func FallBack(past func() *Past, maxAge time.Duration, now time.Time) func(world.Question, world.Answer) (world.Answer, bool) {
	return func(q world.Question, failed world.Answer) (world.Answer, bool) {
		if q.Kind != world.KindTrust && q.Kind != world.KindObject {
			return failed, false
		}
		p := past()
		if p == nil {
			return failed, false
		}
		old, ok := p.Recording.Find(q)
		if !ok || old.Fault != nil {
			return failed, false
		}
		at, err := time.Parse(time.RFC3339, p.Recording.Header.Time)
		if err != nil || now.Sub(at) > maxAge {
			return failed, false
		}
		old.Stale = p.Generation
		old.Because = fmt.Sprintf("%s: %s", failed.Name(), strings.TrimSuffix(failed.Why(), "."))
		return old, true
	}
}
