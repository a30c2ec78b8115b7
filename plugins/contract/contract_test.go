package contract_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
)

// cases is testdata/cases.json.
type cases struct {
	About        map[string]string // each section
	Description  map[string]any
	Descriptions []struct {
		Name   string
		Change map[string]any
		Path   string
	}
	Answers []struct {
		Name   string
		Change map[string]any
		Answer contract.Answer
		Path   string
	}
	Configs []struct {
		Name            string
		Given, Complete map[string]any
		Paths           []string
	}
	DevicePatterns map[string]bool            `json:"device_patterns"`
	PathPatterns   map[string]map[string]bool `json:"path_patterns"`
	LabelValues    map[string]string          `json:"label_values"`
	InvalidPaths   []string                   `json:"invalid_paths"`
	Hidden         string
}

func readCases(t testing.TB) (out cases) {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.json")
	must(t, err)
	decode(t, text, &out)
	return out
}

func decode(t testing.TB, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	must(t, d.Decode(into))
}

// describe returns the description of the cases with the fields of change.
func (c cases) describe(t testing.TB, change map[string]any) (d contract.Description) {
	t.Helper()
	fields := maps.Clone(c.Description)
	maps.Copy(fields, change)
	text, err := json.Marshal(fields)
	must(t, err)
	decode(t, text, &d)
	return d
}

// checkPath wants one problem at path, or none without a path.
func checkPath(t *testing.T, problems contract.Problems, path string) {
	t.Helper()
	if path == "" && len(problems) > 0 {
		t.Errorf("got %v, want no problem", problems)
	}
	if path != "" && (len(problems) != 1 || problems[0].Path != path) {
		t.Errorf("got %v, want one problem at %s", problems, path)
	}
}

func TestDescription(t *testing.T) {
	c := readCases(t)
	whole := c.describe(t, nil)
	checkPath(t, whole.Check(), "")
	for _, tt := range c.Descriptions {
		t.Run(tt.Name, func(t *testing.T) { checkPath(t, c.describe(t, tt.Change).Check(), tt.Path) })
	}

	// A lock file holds it as JSON.
	text, err := json.Marshal(whole)
	must(t, err)
	var read contract.Description
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, whole) {
		t.Errorf("description from a lock file: got %v\n%+v\nwant\n%+v", err, read, whole)
	}
}

func TestConfig(t *testing.T) {
	c := readCases(t)
	attributes := c.describe(t, nil).Config
	for _, tt := range c.Configs {
		t.Run(tt.Name, func(t *testing.T) {
			complete, problems := contract.Config(attributes, tt.Given)
			var paths []string
			for _, p := range problems {
				paths = append(paths, p.Path)
				if _, err := contract.ParsePath(p.Path); err != nil {
					t.Errorf("ParsePath(%q): got %v, want no error", p.Path, err)
				}
			}
			if !reflect.DeepEqual(paths, tt.Paths) {
				t.Fatalf("got problems at %q, want %q:\n%v", paths, tt.Paths, problems)
			}
			if len(paths) > 0 {
				return
			}
			if !reflect.DeepEqual(complete, tt.Complete) {
				t.Errorf("completed: got\n%v\nwant\n%v", complete, tt.Complete)
			}
			again, problems := contract.Config(attributes, complete)
			if len(problems) > 0 || !reflect.DeepEqual(again, complete) {
				t.Errorf("completing again: got %v, %v, want %v", again, problems, complete)
			}
		})
	}
	_, problems := contract.Config(attributes, map[string]any{"mode": "full", "scale_out_prots": true})
	if want := `Did you mean "scale_out_ports"?`; problems[0].Detail != want {
		t.Errorf("got detail %q, want %q", problems[0].Detail, want)
	}
}

func TestDefaultsAreCopies(t *testing.T) {
	declared := []contract.Attribute{
		{
			Name:    "list",
			Type:    contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.String}},
			Default: []any{"a"},
		},
	}
	first, _ := contract.Config(declared, nil)
	first["list"].([]any)[0] = "changed"
	if second, _ := contract.Config(declared, nil); second["list"].([]any)[0] != "a" {
		t.Errorf("after a changed configuration: got default %v, want [a]", second["list"])
	}
}

func TestAnswer(t *testing.T) {
	c := readCases(t)
	requested := []contract.PCIDevice{{Address: "0000:17:00.0"}, {Address: "0000:18:00.0"}}
	for _, tt := range c.Answers {
		t.Run(tt.Name, func(t *testing.T) {
			checkPath(t, c.describe(t, tt.Change).CheckAnswer(tt.Answer, requested), tt.Path)
		})
	}

	// These have no short form in JSON, or none at all.
	for path, answer := range map[string]contract.Answer{
		"devices[0].speed_gbps": {Devices: []contract.Device{{SpeedGbps: new(math.NaN())}}},
		"devices":               {Devices: make([]contract.Device, contract.MaxDevices+1)},
		"temperature":           {Facts: []contract.Fact{{Name: "temperature", Value: math.Inf(1)}}},
		"modules[4096]":         {Facts: []contract.Fact{{Name: "modules", Value: slices.Repeat([]any{"x"}, contract.MaxValues+1)}}},
	} {
		t.Run(path, func(t *testing.T) { checkPath(t, c.describe(t, nil).CheckAnswer(answer, requested), path) })
	}
}

func TestMatch(t *testing.T) {
	c := readCases(t)
	h100 := contract.PCIDevice{Address: "0000:17:00.0", Vendor: "10de", Device: "2330", Class: "030200"}
	for pattern, want := range c.DevicePatterns {
		if got := h100.Is(pattern); got != want {
			t.Errorf("Is(%q): got %v, want %v", pattern, got, want)
		}
	}
	m := contract.Match{PCIIDs: []string{"10de:*", "10de:2330"}}
	other := h100
	other.Address = "0000:03:00.0"
	if got := m.Devices([]contract.PCIDevice{h100, other}); len(got) != 2 || got[0].Address != other.Address {
		t.Errorf("got %v, want each device once, sorted by address", got)
	}
	for pattern, paths := range c.PathPatterns {
		for path, want := range paths {
			if got := contract.MatchPath(pattern, path); got != want {
				t.Errorf("MatchPath(%q, %q): got %v, want %v", pattern, path, got, want)
			}
		}
	}
}

func TestLabelValue(t *testing.T) {
	for in, want := range readCases(t).LabelValues {
		if got := contract.LabelValue(in); got != want {
			t.Errorf("LabelValue(%q): got %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	d := readCases(f).describe(f, nil)
	f.Add("NVIDIA H100 80GB HBM3", `a.b[1]["c"].d`)
	f.Add("\x1b[2J\xff\u202e", `["\n"]`)
	f.Fuzz(func(t *testing.T, text, path string) {
		value := contract.LabelValue(text)
		a := contract.Answer{
			Labels:   []contract.Label{{Key: "habana.ai/x", Value: value}},
			Warnings: []string{contract.OneLine(text)},
		}
		if problems := d.CheckAnswer(a, nil); len(problems) > 0 {
			t.Errorf("answer with %q: got %v, want no problem", text, problems)
		}
		if again := contract.LabelValue(value); again != value {
			t.Errorf("LabelValue(%q): got %q, want the same", value, again)
		}
		steps, err := contract.ParsePath(path)
		if err != nil {
			return
		}
		for _, s := range steps {
			if (s.Name == "") == (s.Key == nil && s.Index == nil) {
				t.Errorf("path %q: got the step %+v, want one with exactly one field", path, s)
			}
		}
	})
}

// A path is names after dots, and indices and quoted keys in brackets; anything else is refused.
func TestParsePath(t *testing.T) {
	got, err := contract.ParsePath(`ports[1].limits["a]\"b"].x`)
	want := []contract.Step{{Name: "ports"}, {Index: new(1)}, {Name: "limits"}, {Key: new(`a]"b`)}, {Name: "x"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, path := range readCases(t).InvalidPaths {
		if got, err := contract.ParsePath(path); err == nil {
			t.Errorf("ParsePath(%q): got %+v, want an error", path, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	attributes := readCases(f).describe(f, nil).Config
	f.Add([]byte(`{"mode":"full","ports":[{"speed":1e400}],"limits":{"\u0000":1}}`))
	f.Add([]byte(`{"firmware":{"minimum":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var given map[string]any
		if json.Unmarshal(b, &given) != nil {
			return
		}
		complete, problems := contract.Config(attributes, given)
		for _, p := range problems {
			if _, err := contract.ParsePath(p.Path); err != nil {
				t.Errorf("ParsePath(%q): got %v, want no error", p.Path, err)
			}
		}
		if len(problems) > 0 {
			return
		}
		if again, problems := contract.Config(attributes, complete); len(problems) > 0 ||
			!reflect.DeepEqual(again, complete) {
			t.Errorf("completing %s again: got %v, %v, want %v", b, again, problems, complete)
		}
	})
}

// TestHiddenCharacters checks that invisible characters are rejected in every text, and replaced by OneLine.
func TestHiddenCharacters(t *testing.T) {
	c := readCases(t)
	for _, hex := range strings.Fields(c.Hidden) {
		r, err := strconv.ParseInt(hex, 16, 32)
		must(t, err)
		s := "a" + string(rune(r)) + "b"
		for path, a := range map[string]contract.Answer{
			"warnings[0]":        {Warnings: []string{s}},
			`attributes["x"]`:    {Attributes: map[string]string{"x": s}},
			"devices[0].name":    {Devices: []contract.Device{{Name: &s}}},
			"facts[0].evidence":  {Facts: []contract.Fact{{Name: "temperature", Value: 3.0, Evidence: s}}},
			"problems[0].detail": {Problems: []contract.Problem{{Summary: "x", Detail: s}}},
		} {
			t.Run(hex+" in "+path, func(t *testing.T) { checkPath(t, c.describe(t, nil).CheckAnswer(a, nil), path) })
		}
		t.Run(hex+" in doc", func(t *testing.T) {
			checkPath(t, c.describe(t, map[string]any{"doc": s}).Check(), "doc")
		})
		if got := contract.OneLine(s); got != "a b" {
			t.Errorf("OneLine(a%Ub): got %q; want %q", r, got, "a b")
		}
	}
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aäb", 2, "a…"}, // ä has two bytes
		{"aäb", 3, "aä…"},
		{"\x80\x80\x80", 2, "…"},
	} {
		if got := contract.Shorten(test.s, test.n); got != test.want {
			t.Errorf("Shorten(%q, %d): got %q, want %q", test.s, test.n, got, test.want)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
