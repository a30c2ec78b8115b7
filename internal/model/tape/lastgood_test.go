package tape

import (
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

// TestKeepVariables keeps the value that the machine gave a variable in the last good generation, and no other.
func TestKeepVariables(t *testing.T) {
	question := func(name string, isSensitive bool) Question {
		return Variable.Question(VariableReq{Name: name, Sensitive: isSensitive})
	}
	given := func(name, source string) Entry {
		return Entry{question(name, false), Variable.Answer(VariableAns{Text: "az1", Source: source})}
	}
	good := &LastGood{Generation: 7, Recording: &Recording{Entries: []Entry{
		given("credential", "credential prelet.var.credential"),
		given("kernel", SourceCommandLine),
		given("flag", "--var"),
		{question("default", false), Failure(fault.Absent, "no source has it", "")},
		{question("secret", true), Variable.Answer(VariableAns{Source: "credential prelet.var.secret"})},
	}}}
	absent := Failure(fault.Absent, "no source has it", "")

	for name, c := range map[string]struct {
		good   *LastGood
		q      Question
		failed Answer
		want   string // the text that is kept; "": the failed answer
	}{
		"a credential":                 {good, question("credential", false), absent, "az1"},
		"one only systemd can decrypt": {good, question("credential", false), Failure(fault.CredentialMissing, "encrypted", ""), "az1"},
		"one that others may read":     {good, question("credential", false), Failure(fault.FileUnusable, "mode 0644", ""), ""},
		"the kernel command line":      {good, question("kernel", false), absent, "az1"},
		"a flag, for one run":          {good, question("flag", false), absent, ""},
		"a default, as before":         {good, question("default", false), absent, ""},
		"a new variable":               {good, question("new", false), absent, ""},
		"no good generation":           {nil, question("credential", false), absent, ""},
		"a secret":                     {good, question("secret", true), absent, ""},
		"the cluster's":                {good, Question{Kind: KindTrust}, absent, ""},
	} {
		a, ok := KeepVariables(func() *LastGood { return c.good })(c.q, c.failed)

		got := ""
		var v VariableAns
		if ok && json.Unmarshal(a.Value, &v) == nil {
			got = v.Text
		}
		if got != c.want || (a.Stale == 7) != (c.want == "az1") {
			t.Errorf("%s: got %q (%+v), want %q", name, got, a, c.want)
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
		return []byte(encode(t, r))
	}
	whole := recordingOf(KindFile, KindTrust)

	for name, c := range map[string]struct {
		store generations
		want  int // answers; -1: ReadLastGood returns nil
	}{
		"it is kept":              {generations{RecordingBlob: whole}, 2},
		"it cannot be read":       {generations{RecordingBlob: []byte("{")}, -1},
		"nothing is kept":         {generations{}, -1},
		"there is no such at all": {nil, -1},
	} {
		good := ReadLastGood(c.store)
		got := -1
		if good != nil {
			got = len(good.Recording.Entries)
		}
		if got != c.want || good != nil && good.Generation != 3 {
			t.Errorf("%s: got %d answers (%+v), want %d of generation 3", name, got, good, c.want)
		}
	}
}

// TestWithheldIsNoReplacement: an answer from whose recording a secret was left out replaces none. Else what stands for
// the secret would get into the kubelet's configuration.
func TestWithheldIsNoReplacement(t *testing.T) {
	q := Object.Question(ObjectReq{Namespace: "kube-system", Name: "kubelet-config"})
	for text, want := range map[string]bool{"staticPodURLHeader: {X: [(sensitive)]}": false, "tags: [a]": true} {
		r := &Recording{Header: Header{Time: "2026-01-02T03:04:05Z"}, Entries: []Entry{{
			Question: q, Answer: Object.Answer(ObjectAns{Data: map[string]string{"kubelet": text}}),
		}}}
		at := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
		fallback := AnswerFromLastGood(
			func() *LastGood { return &LastGood{Generation: 1, Recording: r} }, 24*time.Hour, at,
			func() time.Time { return at },
		)
		if _, got := fallback(q, Failure(fault.ClusterUnreachable, "away", "")); got != want {
			t.Errorf("%s: got a replacement: %t, want %t", text, got, want)
		}
	}
}
