package world

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Names of the recordings that a generation keeps.
const (
	// RecordingBlob is the whole recording of the plan that the generation was made of.
	RecordingBlob = "recording.json"
	// TrustBlob is a recording with the answers about the cluster's CA only. Each boot of a node that has joined needs
	// them, and reading the whole recording takes a tenth of such a boot.
	TrustBlob = "trust.json"
)

// Generations is the part of a store of generations that is read here. *generation.Store implements it.
type Generations interface {
	// LastGood returns the number of the newest generation that was judged good; ok is false if there is none.
	LastGood() (gen int, ok bool)
	// Blob returns a file that a generation keeps.
	Blob(gen int, name string) ([]byte, error)
}

// LastGood is the recording of the last good generation.
type LastGood struct {
	Generation int
	Recording  *Recording
}

// ReadLastGood reads the recording of the last good generation. It returns nil if that generation is missing, or if
// its recording cannot be read.
func ReadLastGood(s Generations) *LastGood { return readKept(s, RecordingBlob) }

// ReadTrust returns the answers about the cluster's CA of the last good generation. A generation of an older prelet
// has no TrustBlob: then it returns all answers of whole, which may return nil.
func ReadTrust(s Generations, whole func() *LastGood) []Entry {
	kept := readKept(s, TrustBlob)
	if kept == nil {
		kept = whole()
	}

	if kept == nil {
		return nil
	}

	return kept.Recording.Entries
}

// readKept reads one recording of the last good generation, nil if it cannot be read.
func readKept(s Generations, name string) *LastGood {
	gen, ok := s.LastGood()
	if !ok {
		return nil
	}

	text, err := s.Blob(gen, name)
	if err != nil {
		return nil
	}

	r, err := Decode(bytes.NewReader(text))
	if err != nil {
		return nil
	}

	return &LastGood{Generation: gen, Recording: r}
}

// AnswerFromLastGood returns a Fallback that replaces a failed answer of the cluster by the answer of the last good
// generation to the same question, marked stale, if that is not older than maxAge. Questions about anything else have
// no replacement: hardware, files and variables are always read now. last may return nil.
//
// reached returns the newest time at which this machine is known to have been. Where the clock shows an earlier one,
// as without a battery, the age is counted to that, and Because contains that the age is not known.
func AnswerFromLastGood(
	last func() *LastGood, maxAge time.Duration, now time.Time, reached func() time.Time,
) Fallback {
	return func(q Question, failed Answer) (Answer, bool) {
		if q.Kind != KindTrust && q.Kind != KindObject {
			return failed, false
		}

		good := last()
		if good == nil {
			return failed, false
		}

		old, ok := good.Recording.Find(q)
		if !ok || old.Fault != nil {
			return failed, false
		}

		at, err := time.Parse(time.RFC3339, good.Recording.Header.Time)
		if err != nil {
			return failed, false
		}

		newest := slices.MaxFunc([]time.Time{now, at, reached()}, time.Time.Compare)
		if newest.Sub(at) > maxAge {
			return failed, false
		}

		old.Stale = good.Generation
		why := strings.TrimSuffix(failed.Why(), ".")
		old.Because = fmt.Sprintf("%s: %s", failed.Name(), why)

		if now.Before(newest) {
			old.Because += fmt.Sprintf("; its age is not known: the clock shows %s, before %s",
				now.UTC().Format(time.RFC3339), newest.UTC().Format(time.RFC3339))
		}

		return old, true
	}
}
