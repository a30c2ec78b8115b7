package testfile

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/testing/table"
)

// readNothing reads one file, config.yaml.
func readNothing(name string) ([]byte, error) {
	if name == "config.yaml" {
		return []byte("maxPods: 64\n"), nil
	}

	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// show returns diagnostics as PLACE CODE SUMMARY: DETAIL.
func show(ds hcl.Diagnostics) string {
	var out []string
	for _, d := range ds {
		at := "-"
		if d.Subject != nil {
			at = fmt.Sprintf("%d:%d", d.Subject.Start.Line, d.Subject.Start.Column)
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s", at, origin.CodeOf(d), d.Summary, d.Detail))
	}

	return strings.Join(out, "\n")
}

func TestParse(t *testing.T) {
	f, diags := Parse("a.prelettest.hcl", []byte(`
variables {
  zone  = "az1"
  count = 3
}
run "one" {
  hardware        = "testdata/*"
  root            = "root"
  objects         = { "kube-system/kubelet-config" = { kubelet = file("config.yaml"), n = "1" }, "ca.crt" = "PEM" }
  variables       = { zone = "mars", count = null, list = ["a"] }
  detectors       = { nvidia = { facts = { mig = true }, labels = { "a/b" = "c" } }, mellanox = { state = "failed" } }
  without         = ["0000:1b:00.0"]
  kubelet_version = "1.36"
  snapshot        = "one"
  assert {
    condition     = node.labels["a"] == "b"
    error_message = "wrong ${var.zone}"
  }
  assert { condition = plan.complete }
}
run "two" {
  from         = "fleet/*.prelet"
  objects      = "objects"
  expect_error = ["variable-invalid", "conflict"]
}
`), readNothing)
	if len(diags) > 0 {
		t.Fatalf("parse: got %s; want no message", show(diags))
	}

	one := f.Runs[0]
	var variables []string
	for name, l := range one.Variables {
		variables = append(variables, name+"="+Format(l.Value))
	}
	got := map[string]string{
		"machines":  one.Machines.V,
		"object":    one.Objects["kube-system/kubelet-config"]["kubelet"] + one.Objects["kube-system/kubelet-config"]["n"],
		"ca":        one.CA,
		"zone":      Format(one.Variables["zone"].Value),
		"list":      Format(one.Variables["list"].Value),
		"variables": fmt.Sprint(len(variables)),
		"nvidia":    one.Detectors["nvidia"].State + fmt.Sprint(one.Detectors["nvidia"].Reply.Facts["mig"]),
		"mellanox":  one.Detectors["mellanox"].State,
		"asserts":   fmt.Sprint(len(one.Asserts)),
		"place":     fmt.Sprintf("%d:%d", one.Asserts[0].Condition.Range().Start.Line, one.At.Start.Line),
		"folder":    f.Runs[1].ObjectsFolder,
		"codes":     fmt.Sprint(f.Runs[1].Expected, f.Runs[1].IsFrom),
	}
	want := table.YAML[map[string]string](t, `
machines: testdata/*
object: |-
  maxPods: 64
  1
ca: PEM
zone: '"mars"'
list: '["a"]'
variables: '2'
nvidia: oktrue
mellanox: failed
asserts: '2'
place: 16:6
folder: objects
codes: '[variable-invalid conflict] true'
`)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("parsed file (-want +got):\n%s", d)
	}
}

// TestFailureIsRecorded checks that a false condition is evaluated once: what it says comes from the record of that.
func TestFailureIsRecorded(t *testing.T) {
	f, diags := Parse("a.prelettest.hcl", []byte(`run "one" {
  hardware = "x"
  assert { condition = (true && upper("a") == "B") }
}
`), readNothing)
	if len(diags) > 0 {
		t.Fatalf("parse: got %s; want no message", show(diags))
	}
	calls := 0
	upper := function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
			calls++
			return cty.StringVal("A"), nil
		},
	})
	scope := eval.New(t.Context(), &lang.Site{}, nil).WithTrace().
		Outside("a condition", cty.EmptyObjectVal, nil, map[string]function.Function{"upper": upper})

	failed := f.check(f.Runs[0].Asserts[0], scope)
	if failed == nil || failed.Got != `"A"` || failed.Want != `"B"` || calls != 1 {
		t.Errorf("got %+v after %d calls of upper; want both texts after one", failed, calls)
	}
}

// TestMistakes holds that each mistake has its place, a code and a next step.
func TestMistakes(t *testing.T) {
	for _, c := range table.YAML[[]struct{ Body, Want string }](t, `
- body: hardwar = "x"
  want: '2:1 unknown-argument Unknown argument "hardwar": Block run has no argument of this name. Did you mean "hardware"?'
- body: hardware = ["x"]
  want: '2:12 wrong-type Wrong type for hardware: A string is needed, and this is a list. Write one text, without brackets. LIST[0] is the first of a list.'
- body: hardware = "x["
  want: '2:12 wrong-type Wrong value for hardware: "x[" is not a valid glob: a bracket is not closed'
- body: hardware = "a/**/*.json"
  want: '2:12 wrong-type Wrong value for hardware: "a/**/*.json" has **, which would match within one folder only, as * does; write */* for two levels'
- body: |-
    hardware = "x"
    kubelet_version = 1.30
  want: '3:19 wrong-type Wrong type for kubelet_version: Write the version in quotes, kubelet_version = "1.30": without them it is a number, and 1.30 is 1.3.'
- want: '1:1 missing-argument A run without a machine: Write hardware = "PATH" for a recorded machine, or from = "PATH" for a recording. Both may be globs, and are relative to this file.'
- body: |-
    hardware = "x"
    from = "y"
  want: '3:8 conflict hardware and from exclude each other: A recording has the hardware of its machine. Remove one of them, or write two runs.'
- body: |-
    from = "x"
    root = "y"
  want: '3:8 conflict from and root exclude each other: A recording has the files of its machine. Remove root.'
- body: |-
    hardware = "x"
    root = var.x
  want: '3:8 reference Only a condition can refer to the plan: root is an input of the run, so it is known before the run. Write a literal, or file(PATH). condition and error_message may refer to var, local, stage, node and plan.'
- body: |-
    hardware = "x"
    objects = { a = {} }
  want: '3:17 wrong-type Invalid name of an object "a": Write NAMESPACE/NAME of a ConfigMap, or ca.crt for the CA of the cluster.'
- body: |-
    hardware = "x"
    objects = { "a/b" = "c" }
  want: '3:21 wrong-type Wrong type for object a/b: The data of a ConfigMap are texts by key: this is a string.'
- body: |-
    hardware = "x"
    objects = { "a/b" = { c = file("d") } }
  want: '3:27 evaluation Error in function call: Call to function "file" failed: d, relative to the test file: file does not exist.'
- body: |-
    hardware = "x"
    variables = 3
  want: '3:13 wrong-type Wrong type for variables: An object is needed, and this is a number. Write { zone = "az1" }.'
- body: |-
    hardware = "x"
    detectors = { n = { state = "faild" } }
  want: '3:19 wrong-type Wrong value for detector "n": The state is not valid. Did you mean "failed"?'
- body: |-
    hardware = "x"
    detectors = { n = { fact = {} } }
  want: '3:19 wrong-type Wrong value for detector "n": It has no argument "fact". Did you mean "facts"?'
- body: |-
    hardware = "x"
    detectors = { n = { state = "absent", facts = {} } }
  want: '3:19 wrong-type Wrong value for detector "n": A detector in the state "absent" reports nothing: remove facts.'
- body: |-
    hardware = "x"
    detectors = { n = { devices = [{ adress = "" }] } }
  want: '3:19 wrong-type Wrong value for detector "n": It does not have the form of a reply: unknown name "adress" in devices[0]. Did you mean "address"?'
- body: |-
    hardware = "x"
    without = ["1b:00.0"]
  want: '3:12 wrong-type Wrong value for without: "1b:00.0" is not a PCI address; write it as in the facts: "0000:1b:00.0"'
- body: |-
    hardware = "x"
    snapshot = "../x"
  want: '3:12 wrong-type Wrong value for snapshot: use letters, digits, and . _ - after the first, at most 100'
- body: |-
    hardware = "x"
    expect_error = "variable-invalit"
  want: '3:16 wrong-type Wrong value for expect_error: unknown code "variable-invalit". Did you mean "variable-invalid"? docs/codes lists all'
- body: |-
    hardware = "x"
    expect_error = []
  want: '3:16 wrong-type Wrong value for expect_error: write the code of an error, or a list of codes: expect_error = "variable-invalid"'
- body: |-
    hardware = "x"
    expect_error = "conflict"
    assert { condition = true }
  want: '4:1 conflict expect_error and assert exclude each other: A run that fails has no finished node. Remove one of them, or write two runs.'
- body: |-
    hardware = "x"
    assert {}
  want: '3:1 missing-argument Missing argument "condition": Block assert needs condition (any). What must be true of the plan.'
- body: |-
    hardware = "x"
    variables {
    }
  want: '3:1 unknown-block Unknown block "variables": Block run has no block of this name. variables is an argument: write variables = { … }.'
`) {
		_, diags := Parse("a.prelettest.hcl", []byte("run \"a\" {\n"+c.Body+"\n}\n"), readNothing)
		if got := show(diags); got != c.Want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", c.Body, got, c.Want)
		}
	}
}

func TestMistakesOfFiles(t *testing.T) {
	for _, c := range table.YAML[[]struct{ File, Want string }](t, `
- {want: '1:1 missing-argument A test file without a run: Write at least one: run "NAME" { hardware = "…" }.'}
- file: runs "a" {}
  want: '1:1 unknown-block Unknown block "runs": .prelettest.hcl has no block of this name. Did you mean "run"?'
- {file: 'run {}', want: '1:1 unknown-block Wrong labels of block "run": It is written run "NAME" { … }.'}
- file: |-
    run "a" { hardware = "x" }
    run "a" { hardware = "x" }
  want: '2:1 duplicate Block run "a" is there twice: The first is at a.prelettest.hcl:1:1. Give one of them another name, or remove it.'
- file: |-
    variables {
      a {}
    }
    run "a" { hardware = "x" }
  want: '2:3 unknown-block Unknown block "a": Block variables has no block of this name. a is an argument: write a = { … }.'
- {file: 'run "a" {', want: '1:9 syntax Unclosed configuration block: The brace that closes this block is missing.'}
`) {
		_, diags := Parse("a.prelettest.hcl", []byte(c.File), readNothing)
		if got := show(diags); got != c.Want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", c.File, got, c.Want)
		}
	}
}

// TestCompare compares values of the types that the finished node has with literals.
func TestCompare(t *testing.T) {
	texts := cty.Map(cty.String)
	literal := cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("b")})
	for _, c := range []struct {
		a, b cty.Value
		want cty.Value
	}{
		{cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")}), literal, cty.True},
		{cty.UnknownVal(texts), literal, cty.UnknownVal(cty.Bool)},
		{literal, cty.UnknownVal(texts), cty.UnknownVal(cty.Bool)},
		{cty.UnknownVal(cty.List(cty.String)), cty.EmptyTupleVal, cty.UnknownVal(cty.Bool)},
		{cty.UnknownVal(cty.List(cty.String)), literal, cty.False},
	} {
		if got := compare(c.a, c.b); !got.RawEquals(c.want) {
			t.Errorf("%#v == %#v: got %#v, want %#v", c.a, c.b, got, c.want)
		}
	}
}

func TestFormat(t *testing.T) {
	long := cty.StringVal(strings.Repeat("x", 60))
	for _, c := range []struct {
		v    cty.Value
		want string
	}{
		{cty.StringVal("a\nb\n"), "a\nb\n"},
		{cty.StringVal("a  b\n"), `"a  b\n"`},
		{cty.ListVal([]cty.Value{cty.StringVal("a")}), `["a"]`},
		{cty.ListVal([]cty.Value{long, long}), "[\n  \"" + long.AsString() + "\",\n  \"" + long.AsString() + "\",\n]"},
		{cty.NullVal(cty.String), "null"},
		{secret.Credential("token"), "(sensitive)"},
		{cty.ObjectVal(map[string]cty.Value{"a": secret.Credential("token")}), "{ a = (sensitive) }"},
		{cty.DynamicVal, "(unknown)"},
	} {
		if got := Format(c.v); got != c.want {
			t.Errorf("Format(%#v): got %q, want %q", c.v, got, c.want)
		}
	}
}

// FuzzParse holds that any text is refused with places inside of it, or gives runs that can be used.
func FuzzParse(f *testing.F) {
	f.Add("run \"a\" {\n  hardware = \"x\"\n  assert { condition = node.labels[\"a\"] == \"b\" }\n}\n")
	f.Add("variables { a = [for x in [1] : x] }\nrun \"a\" { from = \"x*\" }\n")
	f.Add("run \"a\" {\n  hardware = file(\"config.yaml\")\n  objects = { \"a/b\" = { c = 1 } }\n}\n")
	f.Add("run \"a\" {\n  hardware = \"x\"\n  detectors = { a = { devices = [{}], facts = null } }\n}\n")
	f.Add("run \"a\" {\n  hardware = \"x\"\n  expect_error = toset([\"conflict\"])\n  without = null\n}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, diags := Parse("a.prelettest.hcl", []byte(text), readNothing)
		for _, d := range diags {
			if d.Severity == hcl.DiagError && (d.Subject == nil || d.Summary == "") {
				t.Fatalf("got a message without a place: %s", show(hcl.Diagnostics{d}))
			}
		}
		if diags.HasErrors() {
			return
		}

		for _, r := range file.Runs {
			if r.Name == "" || r.Machines.V == "" {
				t.Fatalf("got run %q over %q, want a name and a pattern", r.Name, r.Machines.V)
			}
			for _, a := range r.Asserts {
				if a.Condition == nil || a.Condition.Range().End.Byte > len(text) {
					t.Fatalf("got an assert without a condition in %q", text)
				}
			}
		}
	})
}
