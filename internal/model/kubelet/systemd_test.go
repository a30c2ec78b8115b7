package kubelet

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestArgvAsSystemdDoes compares with what a real systemd handed to a process.
func TestArgvAsSystemdDoes(t *testing.T) {
	data, err := os.ReadFile("testdata/systemd/argv-v252.json")
	must(t, err)
	var cases []struct {
		Env  string   `json:"env"`
		Argv []string `json:"argv"`
	}
	must(t, json.Unmarshal(data, &cases))
	if len(cases) < 280 {
		t.Fatalf("%d cases, want the whole file", len(cases))
	}
	ambiguous := 0
	for i, c := range cases {
		f, err := ParseEnvFile(c.Env)
		if err != nil {
			t.Errorf("case %d %q: got %v, want no error", i, c.Env, err)
			continue
		}
		value, _ := f.Value("X")
		same := slices.Equal(Argv(value), c.Argv)
		if f.Ambiguous() != nil { // v252 reads such comments otherwise, see Ambiguous
			ambiguous++
			if same {
				t.Errorf("case %d %q: got an error, want none because v252 agrees", i, c.Env)
			}
			continue
		}
		if !same {
			t.Errorf("case %d %q:\n got  %q\n want %q", i, c.Env, Argv(value), c.Argv)
		}
		if flags, ok := f.Get("X"); ok && !slices.Equal(flags.Argv(), c.Argv) {
			t.Errorf("case %d %q: got Flags.Argv %q, want systemd's words", i, c.Env, flags.Argv())
		}
	}
	if ambiguous == 0 {
		t.Error("no case exercises Ambiguous")
	}
}
