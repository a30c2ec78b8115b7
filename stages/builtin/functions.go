package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/function"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/schema"
)

// functions lists the functions of the language: ours with words of their own, the others with the library's.
func functions() []schema.Function {
	table := value.Functions()
	var out []schema.Function
	for _, o := range ours() {
		f := schema.Function{Name: o.name, Usage: o.usage, Doc: o.doc, Own: true}
		for _, e := range o.examples {
			f.Examples = append(f.Examples, schema.Example{Call: e[0], Result: evaluate(e[0], table), Why: e[1]})
		}
		delete(table, o.name)
		out = append(out, f)
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		f := table[name]
		out = append(out, schema.Function{Name: name, Usage: usage(name, f), Doc: strings.ReplaceAll(f.Description(), `\"`, `"`)}) // the library escapes twice
	}
	return out
}

func usage(name string, f function.Function) string {
	var ps []string
	for _, p := range f.Params() {
		ps = append(ps, p.Name)
	}
	if v := f.VarParam(); v != nil {
		ps = append(ps, v.Name+"...")
	}
	return name + "(" + strings.Join(ps, ", ") + ")"
}

// evaluate gives the value of an example as JSON, which a site may be written in as well. An example that fails is
// our bug.
func evaluate(text string, table map[string]function.Function) string {
	x, diags := hclsyntax.ParseExpression([]byte(text), "example", hcl.InitialPos)
	if diags.HasErrors() {
		panic(fmt.Sprintf("example %s: %s", text, diags))
	}
	v, diags := x.Value(&hcl.EvalContext{Functions: table})
	if diags.HasErrors() {
		panic(fmt.Sprintf("example %s: %s", text, diags))
	}
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		panic(fmt.Sprintf("example %s: %s", text, err))
	}
	return string(b)
}

type own struct {
	name, usage, doc string
	examples         [][2]string // an expression and what it shows; its value is computed
}

// ours are the functions that Terraform does not have, or that do more or less here.
func ours() []own {
	const named = " Its argument is literals and variables, so that all that a site reads is known when it is loaded; a file whose name depends on more comes in by `fetch-config`."
	return []own{
		{"slug", "slug(string)", "Makes text fit for a label's value: lower case, one hyphen for each run of characters that a label cannot hold, letters or digits at both ends, at most 63 characters. Null stays null.", slugs()},
		{"where", "where(list, attributes)", "The elements of a list of objects whose attributes equal those given. A `for` does the same and loses the type, and with it the check of attributes on a laptop; `where` keeps it. Null equals only null.", [][2]string{
			{`where([{kind = "gpu", n = 1}, {kind = "fpga", n = 2}], {kind = "gpu"})`, ""},
		}},
		{"credential", "credential(name)", "A secret that systemd gave to prelet.service (`LoadCredential=`, `LoadCredentialEncrypted=`, `ImportCredential=`). It can be carried into files and into the cluster's `token`, joined with other text and encoded; whatever else would look into it is refused, and labels, taints and flags refuse it. Plans and recordings hold its name only. Whether there is one is no secret: `can(credential(\"x\"))`. Its argument is literals and variables.", nil},
		{"file", "file(path)", "The text of a file of the node: UTF-8, at most 2 MiB. One with a private key is refused, for what is read stands in recordings: that is what `credential` is for." + named, nil},
		{"fileexists", "fileexists(path)", "Whether the node has that file." + named, nil},
		{"templatefile", "templatefile(name, vars)", "The text of a template over an object of variables. A template is a file of the site, `NAME.tftpl` beside its other files, found by its name without a folder, and hidden by the same name in an earlier layer. It may call all functions but those that read (`file`, `fileexists`, `credential`, `templatefile`): give it their values. A secret goes into the text, which is then one.", nil},
		{"try", "try(expressions...)", "The value of the first expression that has no error. It keeps the mark of secrets, and does not excuse a misspelt attribute that no machine has, nor an error inside a local: that belongs to the local.", [][2]string{
			{`try({a = 1}["b"], 0)`, ""},
		}},
		{"can", "can(expression)", "Whether an expression has no error. What would look into a secret is refused, not answered.", [][2]string{
			{`can(tonumber("x"))`, ""},
		}},
		{"length", "length(value)", "The number of elements of a list, set, map, tuple or object, or of characters of a string. Of null it is an error; collections of facts are never null.", [][2]string{
			{`length({a = 1, b = 2})`, "objects too"},
		}},
		{"startswith", "startswith(string, prefix)", "Whether a string starts with another.", [][2]string{{`startswith("10de:2330", "10de:")`, ""}}},
		{"endswith", "endswith(string, suffix)", "Whether a string ends with another.", [][2]string{{`endswith("gpu-0", "-0")`, ""}}},
		{"one", "one(list)", "The only element of a list, set or tuple; null if there is none; an error if there are more.", [][2]string{{`one(["eth0"])`, ""}}},
		{"alltrue", "alltrue(list)", "Whether all elements of a list are true. Null counts as false.", [][2]string{{`alltrue([])`, "of an empty list"}}},
		{"anytrue", "anytrue(list)", "Whether at least one element of a list is true. Null counts as false.", [][2]string{{`anytrue([false, true])`, ""}}},
		{"base64encode", "base64encode(string)", "The UTF-8 bytes of a string in base64. A secret is encoded when the file is written.", [][2]string{{`base64encode("prelet")`, ""}}},
		{"sha256", "sha256(string)", "The SHA-256 digest of a string, in hexadecimal. A secret's is computed when the file is written.", nil},
		{"jsonencode", "jsonencode(value)", "A value as JSON. Secrets in it are put in when the file is written.", [][2]string{{`jsonencode({a = [1, true, null]})`, ""}}},
		{"yamlencode", "yamlencode(value)", "A value as YAML, in the form of Terraform's function: keys and strings in double quotes, strings of several lines as blocks, long strings folded. Secrets are inserted when the file is written.", [][2]string{{`yamlencode({a = 1})`, ""}}},
		{"jsondecode", "jsondecode(document)", "The value that a JSON document holds: at most 1 MiB and 64 levels.", [][2]string{{`jsondecode("{\"a\": 1}").a`, ""}}},
		{"yamldecode", "yamldecode(document)", "The value that a YAML document holds: at most 1 MiB and 64 levels. Read as the kubelet reads its configuration.", [][2]string{{`yamldecode("maxPods: 110").maxPods`, ""}}},
		{"coalesce", "coalesce(vals...)", "The first of the arguments that is neither null nor an empty string; none: an error. A secret counts as not empty.", [][2]string{{`coalesce(null, "", "a")`, ""}}},
		{"lookup", "lookup(map, key, default)", "The element with a key, or else the default, which may be null or left out: without one it is an error.", [][2]string{{`lookup({a100 = "pool-a"}, "h100", null)`, "no label"}}},
		{"range", "range(start, limit, step)", "Numbers from a start (0) up to but not including a limit, by a step (1): at most 10,000, because evaluation has no other bound.", [][2]string{{`range(3)`, ""}}},
	}
}

// differences lists what functions and operators that Terraform has do otherwise here. A test holds each row.
func differences() []schema.Difference {
	const asKubelet = "YAML is read as the kubelet reads its configuration."
	return []schema.Difference{
		{Call: `false && null`, Terraform: "error", Here: "false", Why: "One operand decides `&&` and `||`, whatever the other is. Otherwise null is refused here too."},
		{Call: `yamldecode("a: 010").a`, Terraform: "10", Here: "8", Why: asKubelet},
		{Call: `yamldecode("a: 1_000").a`, Terraform: `"1_000"`, Here: "1000", Why: asKubelet},
		{Call: `yamldecode("a: 2001-01-01").a`, Terraform: `"2001-01-01T00:00:00Z"`, Here: `"2001-01-01"`, Why: asKubelet},
		{Call: `yamldecode("a: !!binary aGk=").a`, Terraform: `"aGk="`, Here: `"hi"`, Why: asKubelet},
		{Call: `yamldecode("a: !foo 1").a`, Terraform: "error", Here: `"1"`, Why: asKubelet},
		{Call: `yamldecode("a: 123456789012345678901234567890").a`, Terraform: "123456789012345678901234567890", Here: "123456789012345680000000000000",
			Why: "The kubelet's reader takes whole numbers above 2^64 as floating point."},
		{Call: `yamldecode("a: 1\na: 2").a`, Terraform: "2", Here: "error", Why: "A key that is repeated is most often a mistake; `jsondecode` refuses it too."},
		{Call: `jsondecode("{\"a\": 1, \"a\": 2}").a`, Terraform: "2", Here: "error", Why: ""},
		{Call: `element(["a", "b"], -1)`, Terraform: "error", Here: `"b"`, Why: "Newer Terraform counts from the end as well."},
		{Call: `length(range(2000))`, Terraform: "error", Here: "2000", Why: "10,000 elements at most, there 1024."},
		{Call: `cidrhost("::ffff:10.0.0.0/104", 1)`, Terraform: `"10.0.0.1"`, Here: `"::ffff:10.0.0.1"`, Why: "An IPv6 network stays one."},
		{Call: `cidrhost("010.0.0.0/8", 1)`, Terraform: `"10.0.0.1"`, Here: "error", Why: "A leading zero is octal to some readers and decimal to others."},
	}
}

// slugs are the vectors of slug that the reference shows; a test holds them against those of internal/lang/value.
func slugs() [][2]string {
	return [][2]string{
		{`slug("NVIDIA H100 80GB HBM3")`, "lower case, spaces become hyphens"},
		{`slug("AMD Instinct MI300X (OAM)")`, "a run of several characters is one hyphen, none at the end"},
		{`slug("Intel(R) Xeon(R) Platinum 8480+")`, "punctuation is left out like spaces"},
		{`slug("PowerEdge R750 - 2U")`, "a hyphen that touches a run is part of it"},
		{`slug("a--b")`, "what a label can hold stays as it is"},
		{`slug("a.b_c-d")`, "dots, underscores and hyphens stay"},
		{`slug("a. b")`, "a run beside a dot is a hyphen"},
		{`slug("  ..x__ ")`, "letters and digits at both ends"},
		{`slug("---")`, "nothing is left"},
		{`slug("漢字")`, "letters that a label cannot hold are left out"},
		{`slug("Größe 10")`, "no transliteration: it would differ between languages"},
		{`slug("v1.2.3+build/5")`, "versions stay readable"},
		{`slug("0123456789012345678901234567890123456789012345678901234567890123456789")`, "at most 63 characters"},
		{`slug(null)`, "null stays null: no label"},
	}
}
