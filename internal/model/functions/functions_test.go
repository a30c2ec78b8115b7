package functions

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/secret"
)

// functionCases is testdata/functions.yaml.
type functionCases struct {
	Works map[string]struct {
		Args []string
		Want string
	}
	Fails, Results []struct{ Call, Want string }
}

func readFunctionCases(t *testing.T) (out functionCases) {
	t.Helper()
	readData(t, "functions.yaml", &out)
	return out
}

func readData(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	noError(t, err)
	noError(t, yaml.UnmarshalStrict(text, into))
}

func call(name string, args []string) string { return name + "(" + strings.Join(args, ", ") + ")" }

func TestFunctionsWork(t *testing.T) {
	calls := readFunctionCases(t).Works
	for name := range All() {
		c, ok := calls[name]
		if !ok {
			t.Errorf("%s: got no call in this test, want one", name)
			continue
		}
		got := must(t, call(name, c.Args), nil)
		if want := must(t, c.Want, nil); !got.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", call(name, c.Args), got, want)
		}
	}
	if len(calls) != len(All()) {
		t.Errorf("got %d calls, want one for each of %d functions", len(calls), len(All()))
	}
}

// TestFunctionsRefuseOrMark: a secret in any argument of any function, by itself or inside of a collection, is
// refused, also where try could catch it, or its mark is on the result. What can answers holds no secret. The names and
// the number of elements of a collection are none.
func TestFunctionsRefuseOrMark(t *testing.T) {
	carriers := []string{"join", "try", "base64encode", "jsonencode", "tomlencode", "yamlencode"}
	vars := map[string]cty.Value{"sec": secret.Credential("c")}
	carried := map[string]bool{}
	for name, c := range readFunctionCases(t).Works {
		for i := range c.Args {
			for _, argument := range []string{"sec", "[sec]", "{a = sec}", "[{a = sec}]"} {
				args := slices.Clone(c.Args)
				args[i] = argument
				if name == "try" || name == "coalesce" { // only the first that works is looked at
					args = args[i:]
				}
				src := call(name, args)
				v, diags := evaluate(t, src, vars)
				for _, d := range diags {
					if secret.HasPlaceholder(d.Summary + d.Detail) {
						t.Errorf("%s: got message %s, want it without a placeholder", src, d.Detail)
					}
				}
				switch {
				case isSecretRefused(diags):
					if w, again := evaluate(t, "try("+src+`, "caught")`, vars); !isSecretRefused(again) {
						t.Errorf("try(%s): got %#v, want the refusal", src, w)
					}
					if w, again := evaluate(t, "can("+src+")", vars); !isSecretRefused(again) {
						t.Errorf("can(%s): got %#v, want the refusal", src, w)
					}
				case i == 0 && argument != "sec" && slices.Contains(containerFunctions, name):
					if err := checkUnmarked(v, nil, nil); err != nil {
						t.Errorf("%s: got %v, want each placeholder covered by a mark", src, err)
					}
				case name == "can":
					if diags.HasErrors() || len(secret.Names(v)) > 0 {
						t.Errorf("%s: got %#v, %s; want a value without marks", src, v, diags)
					}
				case !slices.Contains(carriers, name):
					t.Errorf("%s: got %#v, %s; want a refusal", src, v, diags)
				case diags.HasErrors(): // of a wrong type
				case !slices.Equal(secret.Names(v), []string{"c"}):
					t.Errorf("%s: got marks %v of %#v, want that of the credential", src, secret.Names(v), v)
				default:
					carried[name] = true
					if err := checkUnmarked(v, nil, nil); err != nil {
						t.Errorf("%s: got %v, want each placeholder covered by a mark", src, err)
					}
				}
			}
		}
	}
	for _, name := range carriers {
		if !carried[name] {
			t.Errorf("%s: got no result with a secret in this test, want one", name)
		}
	}
}

// TestFunctionsOfUnknown: the result of an unknown argument is unknown, so a replay detects that it needs it.
func TestFunctionsOfUnknown(t *testing.T) {
	vars := map[string]cty.Value{"unknown": cty.DynamicVal}
	for name, c := range readFunctionCases(t).Works {
		for i := range c.Args {
			args := slices.Clone(c.Args)
			args[i] = "unknown"
			if name == "try" || name == "coalesce" { // only the first that works is looked at
				args = args[i:]
			}
			v, diags := evaluate(t, call(name, args), vars)
			if diags.HasErrors() || v.IsWhollyKnown() {
				t.Errorf("%s: got %#v, %s; want an unknown value", call(name, args), v, diags)
			}
		}
	}
}

func TestFunctionErrors(t *testing.T) {
	long := cty.StringVal(strings.Repeat("a", 1<<20))
	vars := map[string]cty.Value{"long": long, "broken": cty.StringVal("[a-z"), "big": must(t, "range(200)", nil)}
	for _, tt := range readFunctionCases(t).Fails {
		v, diags := evaluate(t, tt.Call, vars)
		if !diags.HasErrors() || !strings.Contains(diags[0].Detail, tt.Want) {
			t.Errorf("%s is %#v, %q; want an error with %q", tt.Call, v, diags, tt.Want)
		}
	}
}

func TestFunctionResults(t *testing.T) {
	gpus := cty.ListVal([]cty.Value{gpu("nvidia", 80), gpu("amd", 192), cty.ObjectVal(map[string]cty.Value{
		"vendor": cty.NullVal(cty.String), "mem": cty.NullVal(cty.Number)})})
	vars := map[string]cty.Value{
		"gpus":  gpus,
		"none":  cty.ListValEmpty(gpus.Type().ElementType()),
		"ugpus": cty.UnknownVal(gpus.Type()),
		"unk":   cty.UnknownVal(cty.String),
		"part": cty.ListVal(
			[]cty.Value{
				gpu("nvidia", 80),
				cty.ObjectVal(map[string]cty.Value{"vendor": cty.UnknownVal(cty.String), "mem": cty.NumberIntVal(1)}),
			},
		),
		"ul": cty.UnknownVal(cty.List(cty.String)),
	}
	for _, tt := range readFunctionCases(t).Results {
		got, want := must(t, tt.Call, vars), must(t, tt.Want, vars)
		u, _ := got.UnmarkDeep()
		if fmt.Sprintf("%#v", u) != fmt.Sprintf("%#v", want) && !(got.IsKnown() && u.RawEquals(want)) {
			t.Errorf("%s is %#v, want %#v", tt.Call, got, want)
		}
	}
	for src, want := range map[string]cty.Type{
		"length(ul)":                       cty.Number,
		"one(ugpus)":                       gpus.Type().ElementType(),
		"compact(ul)":                      cty.List(cty.String),
		`where(part, {vendor = "nvidia"})`: gpus.Type(),
		`index([unk], "a")`:                cty.Number,
		`alltrue([unk == "a"])`:            cty.Bool,
		"jsondecode(unk)":                  cty.DynamicPseudoType,
		"jsonencode(ul)":                   cty.String,
		"sha256(unk)":                      cty.String,
	} {
		if v := must(t, src, vars); v.IsKnown() || !v.Type().Equals(want) {
			t.Errorf("%s is %#v, want an unknown %s", src, v, want.FriendlyName())
		}
	}
}

func gpu(vendor string, mem int64) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"vendor": cty.StringVal(vendor), "mem": cty.NumberIntVal(mem)})
}

func BenchmarkFunctions(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		All()
	}
}
