package tape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// RecordingBlob is the name of the recording that a generation keeps: that of the plan that it was made of.
const RecordingBlob = "recording.json"

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
func ReadLastGood(s Generations) *LastGood {
	gen, ok := s.LastGood()
	if !ok {
		return nil
	}

	r, err := ReadKept(s, gen)
	if err != nil {
		return nil
	}

	return &LastGood{Generation: gen, Recording: r}
}

func ReadKept(s Generations, gen int) (*Recording, error) {
	text, err := s.Blob(gen, RecordingBlob)
	if err != nil {
		return nil, err
	}

	return Decode(bytes.NewReader(text))
}

// Sources of a variable on the machine itself. The name of a credential follows the first one.
const (
	SourceCredential  = "credential "
	SourceCommandLine = "the kernel command line"
)

// KeepVariables returns a Fallback for variables that the machine gave a value in the last good generation, and gives
// none now: for example, a provisioner passed a credential to the first boot only. The value stays, marked stale. The
// value of a sensitive variable is in no recording; it has no default, so its absence is an error. last may return nil.
func KeepVariables(last func() *LastGood) Fallback {
	return func(q Question, failed Answer) (Answer, bool) {
		isGone := failed.Code() == fault.Absent || failed.Code() == fault.CredentialMissing
		if q.Kind != KindVariable || !isGone {
			return failed, false
		}

		good := last()
		if good == nil {
			return failed, false
		}

		req, err := Variable.Request(q)
		old, ok := good.Recording.Find(q)
		var was VariableAns
		isUsable := ok && old.Fault == nil && !lacksSecret(old)
		if err != nil || req.Sensitive || !isUsable || json.Unmarshal(old.Value, &was) != nil {
			return failed, false
		}
		if !strings.HasPrefix(was.Source, SourceCredential) && was.Source != SourceCommandLine {
			return failed, false // by a flag, for one run
		}

		why := strings.TrimSuffix(failed.Why(), ".")
		old.Stale = good.Generation
		old.Because = fmt.Sprintf("%s gave it a value then, and now: %s", was.Source, why)

		return old, true
	}
}

// lacksSecret reports whether a recording has an answer without a secret of it. Its placeholder must not get into a
// file.
func lacksSecret(a Answer) bool { return bytes.Contains(a.Value, []byte("(sensitive)")) }

// Or returns a Fallback that asks other where f has no replacement. Each of them may be nil.
func (f Fallback) Or(other Fallback) Fallback {
	switch {
	case f == nil:
		return other
	case other == nil:
		return f
	}

	return func(q Question, failed Answer) (Answer, bool) {
		if a, ok := f(q, failed); ok {
			return a, true
		}

		return other(q, failed)
	}
}

// AnswerFromLastGood returns a Fallback that replaces a failed answer of the cluster by the answer of the last good
// generation to the same question, marked stale, if that is not older than maxAge. Questions about hardware and files
// have no replacement: they are always read now. See KeepVariables for variables. last may return nil.
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
		if !ok || old.Fault != nil || lacksSecret(old) {
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
