package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/fault"
)

// TestAnswerFromLastGood replaces a failed answer of the cluster, and of nothing else, up to the age limit and not a second
// longer.
func TestAnswerFromLastGood(t *testing.T) {
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	trust, object, file := Question{Kind: KindTrust}, Question{Kind: KindObject}, Question{Kind: KindFile}
	good := &LastGood{Generation: 7, Recording: &Recording{
		Header: Header{Time: then.Format(time.RFC3339)},
		Entries: []Entry{
			{Question: trust, Answer: Answer{Value: json.RawMessage(`{"ca":"x"}`)}},
			{Question: file, Answer: Answer{Value: json.RawMessage(`{}`)}},
		},
	}}
	failed := Failure(fault.ClusterUnreachable, "connection refused.", "")

	const because = "unreachable: connection refused"
	const years = -50 * 365 * 24 * time.Hour
	unknown := because + "; its age is not known: the clock shows 1976-01-14T00:00:00Z, before "

	for name, c := range map[string]struct {
		good    *LastGood
		q       Question
		age     time.Duration // by the clock
		reached time.Duration // the newest time that is known, after the recording
		want    string        // because; "": the failed answer
	}{
		"young":                    {good, trust, time.Hour, 0, because},
		"at its limit":             {good, trust, 2 * time.Hour, time.Hour, because},
		"too old":                  {good, trust, 2*time.Hour + time.Second, 0, ""},
		"never asked":              {good, object, time.Hour, 0, ""},
		"not the cluster's":        {good, file, time.Hour, 0, ""},
		"no good generation":       {nil, trust, time.Hour, 0, ""},
		"a clock before it":        {good, trust, years, years, unknown + "2026-01-01T00:00:00Z"},
		"the same, one run since":  {good, trust, years, time.Hour, unknown + "2026-01-01T01:00:00Z"},
		"the same, known as old":   {good, trust, years, 3 * time.Hour, ""},
		"after it, before the run": {good, trust, time.Hour, 3 * time.Hour, ""},
	} {
		reached := func() time.Time { return then.Add(c.reached) }
		a, ok := AnswerFromLastGood(func() *LastGood { return c.good }, 2*time.Hour, then.Add(c.age), reached)(c.q, failed)
		switch {
		case ok != (c.want != ""):
			t.Errorf("%s: got %t, want %t", name, ok, c.want != "")
		case ok && (a.Stale != 7 || a.Because != c.want || a.Fault != nil):
			t.Errorf("%s: got %+v, want the answer of generation 7, stale because %q", name, a, c.want)
		case !ok && a.Code() != failed.Code():
			t.Errorf("%s: got %+v, want the failed answer", name, a)
		}
	}
}

// generations is a store with one good generation, number 3, unless it is nil.
type generations map[string][]byte

func (g generations) LastGood() (int, bool) { return 3, g != nil }

func (g generations) Blob(gen int, name string) ([]byte, error) {
	if b, ok := g[name]; ok && gen == 3 {
		return b, nil
	}
	return nil, errors.New("no such file")
}

func TestReadLastGood(t *testing.T) {
	recordingOf := func(kinds ...Kind) []byte {
		r := &Recording{}
		for _, k := range kinds {
			e := Entry{Question: Question{Kind: k, Args: `{}`}, Answer: Answer{Value: json.RawMessage(`{}`)}}
			r.Entries = append(r.Entries, e)
		}
		var text bytes.Buffer
		if err := r.Encode(&text); err != nil {
			t.Fatal(err)
		}
		return text.Bytes()
	}
	whole, trust := recordingOf(KindFile, KindTrust), recordingOf(KindTrust)

	for name, c := range map[string]struct {
		store               generations
		wantWhole, wantOnly int // answers of ReadLastGood and ReadTrust; -1: ReadLastGood returns nil
	}{
		"both are kept":            {generations{RecordingBlob: whole, TrustBlob: trust}, 2, 1},
		"of an older prelet":       {generations{RecordingBlob: whole}, 2, 2},
		"trust cannot be read":     {generations{RecordingBlob: whole, TrustBlob: []byte("{")}, 2, 2},
		"the whole cannot be read": {generations{RecordingBlob: []byte("{"), TrustBlob: trust}, -1, 1},
		"nothing is kept":          {generations{}, -1, 0},
		"there is no such at all":  {nil, -1, 0},
	} {
		good := ReadLastGood(c.store)
		got := -1
		if good != nil {
			got = len(good.Recording.Entries)
		}
		if got != c.wantWhole || good != nil && good.Generation != 3 {
			t.Errorf("%s: ReadLastGood: got %d answers (%+v), want %d of generation 3", name, got, good, c.wantWhole)
		}

		only := ReadTrust(c.store, func() *LastGood { return good })
		if len(only) != c.wantOnly {
			t.Errorf("%s: ReadTrust: got %d answers, want %d", name, len(only), c.wantOnly)
		}
	}
}
