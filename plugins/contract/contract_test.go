package contract_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/prelet/prelet/plugins/contract"
)

// gaudi is a description with one of everything.
func gaudi() contract.Description {
	text, number := contract.Type{Kind: contract.String}, contract.Type{Kind: contract.Number}
	return contract.Description{
		Name:    "gaudi",
		Version: "1.20.0",
		Vendor:  "Habana",
		Config: []contract.Attribute{
			{Name: "scale_out_ports", Type: contract.Type{Kind: contract.Bool}, Default: true},
			{Name: "mode", Type: text, Required: true, OneOf: []string{"full", "quick"}},
			{Name: "limit", Type: number, Minimum: new(1.0), Maximum: new(8.0), Unit: "cards"},
			{
				Name: "firmware",
				Type: contract.Type{
					Kind:       contract.Object,
					Attributes: []contract.Attribute{{Name: "minimum", Type: text, Required: true}},
				},
			},
			{Name: "ports", Type: contract.Type{Kind: contract.List, Element: &contract.Type{Kind: contract.Object,
				Attributes: []contract.Attribute{{Name: "speed", Type: number}}}}},
			{Name: "limits", Type: contract.Type{Kind: contract.Map, Element: &number}},
		},
		Facts: []contract.Attribute{
			{Name: "temperature", Type: number, Unit: "celsius"},
			{Name: "modules", Type: contract.Type{Kind: contract.List, Element: &text}},
		},
		LabelDomains: []string{"habana.ai"},
		Match:        contract.Match{PCIIDs: []string{"1da3:*:12"}},
	}
}

func TestDescription(t *testing.T) {
	if problems := gaudi().Check(); len(problems) > 0 {
		t.Fatalf("valid description: got %v, want no problem", problems)
	}
	deep := contract.Type{Kind: contract.String}
	for range contract.MaxDepth + 1 {
		deep = contract.Type{Kind: contract.List, Element: &contract.Type{Kind: deep.Kind, Element: deep.Element}}
	}
	tests := []struct {
		name   string
		change func(*contract.Description)
		path   string
	}{
		{"no name", func(d *contract.Description) { d.Name = "" }, "name"},
		{"a path as name", func(d *contract.Description) { d.Name = "../gaudi" }, "name"},
		{"a long name", func(d *contract.Description) { d.Name = strings.Repeat("a", 64) }, "name"},
		{"no version", func(d *contract.Description) { d.Version = "" }, "version"},
		{"a version of two lines", func(d *contract.Description) { d.Version = "1\n2" }, "version"},
		{"a vendor that clears the screen", func(d *contract.Description) { d.Vendor = "\x1b[2J" }, "vendor"},
		{
			"an attribute twice",
			func(d *contract.Description) { d.Config = append(d.Config, d.Config[0]) },
			"config[6].name",
		},
		{"required and default", func(d *contract.Description) { d.Config[1].Default = "full" }, "config[1].default"},
		{
			"a default of another type",
			func(d *contract.Description) { d.Config[0].Default = "yes" },
			"config[0].default",
		},
		{
			"a default that is not allowed",
			func(d *contract.Description) { d.Config[2].Default = 9.0 },
			"config[2].default",
		},
		{"a default of a fact", func(d *contract.Description) { d.Facts[0].Default = 3.0 }, "facts[0]"},
		{"a default that clears the screen", func(d *contract.Description) {
			d.Config = append(
				d.Config,
				contract.Attribute{Name: "x", Type: contract.Type{Kind: contract.String}, Default: "\x1b[2J"},
			)
		}, "config[6].default"},
		{
			"a choice that nobody sees",
			func(d *contract.Description) { d.Config[1].OneOf = []string{"full", "quick\u200b"} },
			"config[1].one_of[1]",
		},
		{"a unit of a string", func(d *contract.Description) { d.Config[1].Unit = "m" }, "config[1]"},
		{"no kind", func(d *contract.Description) { d.Facts[0].Type = contract.Type{} }, "facts[0].type.kind"},
		{"a list of nothing", func(d *contract.Description) { d.Facts[1].Type.Element = nil }, "facts[1].type.element"},
		{"nested too deep", func(d *contract.Description) { d.Facts[0] = contract.Attribute{Name: "deep", Type: deep} },
			"facts[0].type" + strings.Repeat(".element", contract.MaxDepth)},
		{"nothing to match", func(d *contract.Description) { d.Match = contract.Match{} }, "match"},
		{"an id in capitals", func(d *contract.Description) { d.Match.PCIIDs[0] = "1DA3:*" }, "match.pci_ids[0]"},
		{"a relative path", func(d *contract.Description) { d.Match.Paths = []string{"sys"} }, "match.paths[0]"},
		{"a star in the root", func(d *contract.Description) { d.Match.Paths = []string{"/*/x"} }, "match.paths[0]"},
		{
			"a star at a device's place",
			func(d *contract.Description) { d.Match.Paths = []string{"/sys/devices/*/x"} },
			"match.paths[0]",
		},
		{
			"a star in a folder's name",
			func(d *contract.Description) { d.Match.Paths = []string{"/sys/class*/x"} },
			"match.paths[0]",
		},
		{"a star in a home", func(d *contract.Description) { d.Match.Paths = []string{"/home/*/x"} }, "match.paths[0]"},
		{
			"a star for a process",
			func(d *contract.Description) { d.Match.Paths = []string{"/proc/*/exe"} },
			"match.paths[0]",
		},
		{"three stars", func(d *contract.Description) { d.Match.Paths = []string{"/sys/bus/*/*/*"} }, "match.paths[0]"},
		{
			"three stars in one name",
			func(d *contract.Description) { d.Match.Paths = []string{"/dev/a*b*c*"} },
			"match.paths[0]",
		},
		{"the root", func(d *contract.Description) { d.Needs.Read = []string{"/"} }, "needs.read[0]"},
		{"a way up", func(d *contract.Description) { d.Needs.Read = []string{"/usr/../etc"} }, "needs.read[0]"},
		{
			"a device elsewhere",
			func(d *contract.Description) { d.Needs.Devices = []string{"/tmp/accel0"} },
			"needs.devices[0]",
		},
		{"no group", func(d *contract.Description) { d.Wants.Groups = []string{"a b"} }, "wants.groups[0]"},
		{
			"Kubernetes' own domain",
			func(d *contract.Description) { d.LabelDomains = []string{"feature.node.kubernetes.io"} },
			"label_domains[0]",
		},
		{"no domain", func(d *contract.Description) { d.LabelDomains = []string{"habana"} }, "label_domains[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := clone(t, gaudi())
			tt.change(&d)
			problems := d.Check()
			if len(problems) != 1 || problems[0].Path != tt.path {
				t.Errorf("want one problem at %s, got %v", tt.path, problems)
			}
		})
	}
}

// TestPaths checks that the patterns of real detectors are valid.
func TestPaths(t *testing.T) {
	d := gaudi()
	d.Match.Paths = []string{
		"/etc/openvswitch/conf.db",
		"/sys/class/accel/accel*",
		"/sys/bus/pci/drivers/*/0000:*",
		"/dev/nvidia*",
		"/dev/**",
		"/proc/driver/nvidia/gpus/*/information",
		"/lib/modules/*/extra",
		"/sys/firmware/devicetree/base/x*",
		"/sys/module/mlx*_core",
	}
	if problems := d.Check(); len(problems) > 0 {
		t.Errorf("got %v; want no problem", problems)
	}
}

// clone copies a description through JSON, as a lock file does, and checks that nothing is lost.
func clone(t *testing.T, d contract.Description) contract.Description {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatalf("json.Marshal: got %v, want no error", err)
	}
	var out contract.Description
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("json.Unmarshal(%s): got %v, want no error", b, err)
	}
	if !reflect.DeepEqual(out, d) {
		t.Fatalf("description from a lock file: got\n%+v\nwant\n%+v", out, d)
	}
	return out
}

func TestConfig(t *testing.T) {
	tests := []struct {
		name, given, complete string
		paths                 []string
	}{
		{
			"the least",
			`{"mode":"full"}`,
			`{"firmware":null,"limit":null,"limits":null,"mode":"full","ports":null,"scale_out_ports":true}`,
			nil,
		},
		{
			"all of it",
			`{"mode":"quick","limit":8,"firmware":{"minimum":"1.20"},"ports":[{"speed":100},{}],"limits":{"gpu":1},"scale_out_ports":false}`,
			`{"firmware":{"minimum":"1.20"},"limit":8,"limits":{"gpu":1},"mode":"quick","ports":[{"speed":100},{"speed":null}],"scale_out_ports":false}`,
			nil,
		},
		{
			"null is absent",
			`{"mode":"full","scale_out_ports":null}`,
			`{"firmware":null,"limit":null,"limits":null,"mode":"full","ports":null,"scale_out_ports":true}`,
			nil,
		},
		{"nothing", `{}`, "", []string{"mode"}},
		{"misspelt", `{"mode":"full","scale_out_prots":true}`, "", []string{"scale_out_prots"}},
		{"wrong types", `{"mode":true,"limit":"8","firmware":[],"ports":{},"limits":1,"scale_out_ports":"yes"}`, "",
			[]string{"scale_out_ports", "mode", "limit", "firmware", "ports", "limits"}},
		{
			"inside",
			`{"mode":"full","firmware":{"minimun":"1"},"ports":[{},{"speed":"fast"}],"limits":{"a \"b\"":"x"}}`,
			"",
			[]string{"firmware.minimum", "firmware.minimun", "ports[1].speed", `limits["a \"b\""]`},
		},
		{"not one of them", `{"mode":"ful"}`, "", []string{"mode"}},
		{"out of bounds", `{"mode":"full","limit":9}`, "", []string{"limit"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var given map[string]any
			if err := json.Unmarshal([]byte(tt.given), &given); err != nil {
				t.Fatalf("json.Unmarshal(%s): got %v, want no error", tt.given, err)
			}
			complete, problems := contract.Config(gaudi().Config, given)
			var paths []string
			for _, p := range problems {
				paths = append(paths, p.Path)
				if _, err := contract.ParsePath(p.Path); err != nil {
					t.Errorf("ParsePath(%q): got %v, want no error", p.Path, err)
				}
			}
			if !reflect.DeepEqual(paths, tt.paths) {
				t.Fatalf("got problems at %q, want %q:\n%v", paths, tt.paths, problems)
			}
			if tt.complete == "" {
				return
			}
			if b, _ := json.Marshal(complete); string(b) != tt.complete {
				t.Errorf("completed: got\n%s\nwant\n%s", b, tt.complete)
			}
			again, problems := contract.Config(gaudi().Config, complete)
			if len(problems) > 0 || !reflect.DeepEqual(again, complete) {
				t.Errorf("completing again: got %v, %v, want %v", again, problems, complete)
			}
		})
	}
	_, problems := contract.Config(gaudi().Config, map[string]any{"mode": "full", "scale_out_prots": true})
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
	asked := []contract.PCIDevice{{Address: "0000:17:00.0"}, {Address: "0000:18:00.0"}}
	right := contract.Answer{
		Devices: []contract.Device{
			{
				Address:     "0000:17:00.0",
				Name:        new("HL-225"),
				Kind:        new("npu"),
				MemoryBytes: new(uint64(96 << 30)),
				Attributes:  map[string]string{"serial-free": "x"},
				Evidence:    map[string]string{"name": "/sys/class/accel", "attributes.serial-free": "y"},
			},
			{},
		},
		Attributes: map[string]string{"driver": "1.20.0"},
		Facts: []contract.Fact{
			{Name: "temperature", Unknown: "no permission"},
			{Name: "modules", Value: []any{"a", nil}},
		},
		Labels:   []contract.Label{{Key: "habana.ai/name", Value: "HL-225"}, {Key: "gaudi.habana.ai/x", Value: ""}},
		Warnings: []string{"old firmware"},
	}
	if problems := gaudi().CheckAnswer(right, asked); len(problems) > 0 {
		t.Fatalf("valid answer: got %v, want no problem", problems)
	}
	tests := []struct {
		name, path string
		answer     contract.Answer
	}{
		{
			"an address twice",
			"devices[1].address",
			contract.Answer{Devices: []contract.Device{{Address: "0000:17:00.0"}, {Address: "0000:17:00.0"}}},
		},
		{"no address", "devices[0].address", contract.Answer{Devices: []contract.Device{{Address: "17:00.0"}}}},
		{
			"another's device",
			"devices[1].address",
			contract.Answer{
				Devices: []contract.Device{{Address: "0000:17:00.0"}, {Address: "0000:1b:00.0", Kind: new("nic")}},
			},
		},
		{"an empty name", "devices[0].name", contract.Answer{Devices: []contract.Device{{Name: new("")}}}},
		{
			"a name in colours",
			"devices[0].name",
			contract.Answer{Devices: []contract.Device{{Name: new("\x1b[31mred")}}},
		},
		{
			"a name from right to left",
			"devices[0].name",
			contract.Answer{Devices: []contract.Device{{Name: new("a\u202eb")}}},
		},
		{"a kind of its own", "devices[0].kind", contract.Answer{Devices: []contract.Device{{Kind: new("toaster")}}}},
		{
			"no memory",
			"devices[0].memory_bytes",
			contract.Answer{Devices: []contract.Device{{MemoryBytes: new(uint64(0))}}},
		},
		{
			"no speed",
			"devices[0].speed_gbps",
			contract.Answer{Devices: []contract.Device{{SpeedGbps: new(math.NaN())}}},
		},
		{"a negative node", "devices[0].numa", contract.Answer{Devices: []contract.Device{{NUMA: new(-1)}}}},
		{"a link in between", "devices[0].link", contract.Answer{Devices: []contract.Device{{Link: new("flapping")}}}},
		{
			"evidence of nothing",
			`devices[0].evidence["attributes.x"]`,
			contract.Answer{Devices: []contract.Device{{Evidence: map[string]string{"attributes.x": "y"}}}},
		},
		{"too many devices", "devices", contract.Answer{Devices: make([]contract.Device, contract.MaxDevices+1)}},
		{"a key with a space", `attributes["a b"]`, contract.Answer{Attributes: map[string]string{"a b": ""}}},
		{
			"a fact that is not described",
			"facts[0].name",
			contract.Answer{Facts: []contract.Fact{{Name: "temprature", Value: 3.0}}},
		},
		{
			"a fact of another type",
			"temperature",
			contract.Answer{Facts: []contract.Fact{{Name: "temperature", Value: "hot"}}},
		},
		{
			"a fact that is no number",
			"temperature",
			contract.Answer{Facts: []contract.Fact{{Name: "temperature", Value: math.Inf(1)}}},
		},
		{
			"a fact twice",
			"facts[1].name",
			contract.Answer{Facts: []contract.Fact{{Name: "temperature"}, {Name: "temperature"}}},
		},
		{
			"known and unknown",
			"facts[0].unknown",
			contract.Answer{Facts: []contract.Fact{{Name: "temperature", Value: 3.0, Unknown: "why"}}},
		},
		{
			"another's domain",
			"labels[0].key",
			contract.Answer{Labels: []contract.Label{{Key: "nvidia.com/x", Value: "y"}}},
		},
		{
			"a domain that only ends alike",
			"labels[0].key",
			contract.Answer{Labels: []contract.Label{{Key: "nothabana.ai/x", Value: "y"}}},
		},
		{"no domain", "labels[0].key", contract.Answer{Labels: []contract.Label{{Key: "x", Value: "y"}}}},
		{
			"a value that no label has",
			"labels[0].value",
			contract.Answer{Labels: []contract.Label{{Key: "habana.ai/x", Value: "a b"}}},
		},
		{"a warning of two lines", "warnings[0]", contract.Answer{Warnings: []string{"a\nb"}}},
		{
			"a problem without words",
			"problems[0].summary",
			contract.Answer{Problems: []contract.Problem{{Path: "mode"}}},
		},
		{
			"a problem nowhere",
			"problems[0].path",
			contract.Answer{Problems: []contract.Problem{{Path: "a..b", Summary: "x"}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if problems := gaudi().CheckAnswer(tt.answer, asked); len(problems) != 1 || problems[0].Path != tt.path {
				t.Errorf("want one problem at %s, got %v", tt.path, problems)
			}
		})
	}
	other := contract.Answer{Devices: []contract.Device{{Address: "0000:1b:00.0"}}}
	for _, d := range []contract.Description{{Needs: contract.Needs{AnyPCIDevice: true}}, {Wants: contract.Needs{AnyPCIDevice: true}}} {
		if problems := d.CheckAnswer(other, asked); len(problems) > 0 {
			t.Errorf("foreign device with any_pci_device: got %v, want no problem", problems)
		}
	}
	many := make([]any, contract.MaxValues+1)
	for i := range many {
		many[i] = "x"
	}
	if problems := gaudi().CheckAnswer(contract.Answer{Facts: []contract.Fact{{Name: "modules", Value: many}}}, nil); len(
		problems,
	) != 1 {
		t.Errorf("%d values: got %v, want one problem", len(many), problems)
	}
}

func TestMatch(t *testing.T) {
	h100 := contract.PCIDevice{Address: "0000:17:00.0", Vendor: "10de", Device: "2330", Class: "030200"}
	for pattern, want := range map[string]bool{"10de:2330": true, "10de:*": true, "10de:*:03": true, "10de:*:0302": true, "10de:2330:0300": false, "10de:2331": false, "1002:*": false} {
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
	for _, tt := range []struct {
		pattern, path string
		want          bool
	}{
		{"/dev/nvidia*", "/dev/nvidia0", true}, {"/dev/nvidia*", "/dev/nvidia", true}, {"/dev/nvidia*", "/dev/nvidia-caps/x", false},
		{"/dev/nvidia-caps/*", "/dev/nvidia-caps/x", true}, {"/dev/a*c*e", "/dev/abcde", true}, {"/dev/a*c*e", "/dev/ace", true},
		{"/dev/a*c*e", "/dev/aec", false}, {"/dev/ab*ba", "/dev/aba", false}, {"/run/x", "/run/x", true}, {"/run/x", "/run/xy", false},
	} {
		if got := contract.MatchPath(tt.pattern, tt.path); got != tt.want {
			t.Errorf("MatchPath(%q, %q): got %v, want %v", tt.pattern, tt.path, got, tt.want)
		}
	}
}

func TestLabelValue(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA H100 80GB HBM3": "NVIDIA-H100-80GB-HBM3", "": "", "!!!": "", "  a  b ": "a-b", "-x-": "x", "ConnectX-6 Dx": "ConnectX-6-Dx",
		"82599ES 10-Gigabit SFI/SFP+": "82599ES-10-Gigabit-SFI-SFP", strings.Repeat("é", 10): "", strings.Repeat("ab ", 40): strings.Repeat("ab-", 21)[:62],
	} {
		if got := contract.LabelValue(in); got != want {
			t.Errorf("LabelValue(%q): got %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("NVIDIA H100 80GB HBM3", `a.b[1]["c"].d`)
	f.Add("\x1b[2J\xff\u202e", `["\n"]`)
	f.Fuzz(func(t *testing.T, text, path string) {
		d := gaudi()
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
	for _, path := range []string{".", "a.", "a..b", "a.[0]", "a[", "a[x]", "a[-1]", `a["b]`, "a[0]b", "[99999999999999999999]"} {
		if got, err := contract.ParsePath(path); err == nil {
			t.Errorf("ParsePath(%q): got %+v, want an error", path, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"mode":"full","ports":[{"speed":1e400}],"limits":{"\u0000":1}}`))
	f.Add([]byte(`{"firmware":{"minimum":null}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var given map[string]any
		if json.Unmarshal(b, &given) != nil {
			return
		}
		complete, problems := contract.Config(gaudi().Config, given)
		for _, p := range problems {
			if _, err := contract.ParsePath(p.Path); err != nil {
				t.Errorf("ParsePath(%q): got %v, want no error", p.Path, err)
			}
		}
		if len(problems) > 0 {
			return
		}
		if again, problems := contract.Config(gaudi().Config, complete); len(problems) > 0 ||
			!reflect.DeepEqual(again, complete) {
			t.Errorf("completing %s again: got %v, %v, want %v", b, again, problems, complete)
		}
	})
}

// TestHiddenCharacters checks that invisible characters are rejected in every text, and replaced by OneLine.
func TestHiddenCharacters(t *testing.T) {
	hidden := []rune{
		0,
		'\n',
		'\t',
		0x1b,
		0x7f,
		0x9b,
		0xad,
		0x34f,
		0x61c,
		0x115f,
		0x17b4,
		0x180b,
		0x180e,
		0x200b,
		0x200d,
		0x200e,
		0x2028,
		0x2029,
		0x202e,
		0x2060,
		0x2063,
		0x2065,
		0x2068,
		0x206f,
		0x3164,
		0xe000,
		0xfe0f,
		0xfeff,
		0xffa0,
		0xfff0,
		0xfff9,
		0xffff,
		0x13430,
		0x1bca0,
		0x1d173,
		0xe0001,
		0xe0041,
		0xe007f,
		0xe0100,
		0xe01ef,
		0xe0fff,
		0xf0000,
		0x10fffd,
	}
	for _, r := range hidden {
		s := "a" + string(r) + "b"
		answers := map[string]contract.Answer{
			"warnings[0]":        {Warnings: []string{s}},
			`attributes["x"]`:    {Attributes: map[string]string{"x": s}},
			"devices[0].name":    {Devices: []contract.Device{{Name: &s}}},
			"facts[0].evidence":  {Facts: []contract.Fact{{Name: "temperature", Evidence: s}}},
			"problems[0].detail": {Problems: []contract.Problem{{Summary: "x", Detail: s}}},
		}
		for path, a := range answers {
			if problems := gaudi().CheckAnswer(a, nil); len(problems) != 1 || problems[0].Path != path {
				t.Errorf("%U in %s: got %v; want one problem there", r, path, problems)
			}
		}
		d := gaudi()
		d.Doc = s
		if problems := d.Check(); len(problems) != 1 || problems[0].Path != "doc" {
			t.Errorf("%U in doc: got %v; want one problem there", r, problems)
		}
		if got := contract.OneLine(s); got != "a b" {
			t.Errorf("OneLine(a%Ub): got %q; want %q", r, got, "a b")
		}
	}
	for _, s := range []string{"NVIDIA H100 80GB HBM3", "Größe", "温度 41.5 °C", "é e\u0301", "50 µm — “x”", "a\u00a0b", "עברית", "हिन्दी"} {
		if problems := gaudi().CheckAnswer(contract.Answer{Warnings: []string{s}}, nil); len(problems) > 0 {
			t.Errorf("%q: got %v; want no problem", s, problems)
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
