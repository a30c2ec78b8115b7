package sites

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
)

// TestMistakesOfOperators checks that each mistake is reported once, with what to write instead.
func TestMistakesOfOperators(t *testing.T) {
	const (
		cluster = "cluster {\n  servers = [\"10.0.0.1:6443\"]\n  token   = credential(\"t\")\n  ca_file = " +
			"\"/ca.crt\"\n}\n"
		around = cluster + "stage \"fetch-ca\" \"c\" {}\nstage \"detect-hw\" \"n\" {}\n" +
			"stage \"fetch-config\" \"k\" { config_map = \"kube-system/kubelet-config\" }\n"
		write = around + "stage \"write\" \"kubelet\" {}\n"
	)
	file := func(argument string) string {
		return around + "stage \"write\" \"kubelet\" {\n  file \"a\" {\n" + argument + "\n  }\n}\n"
	}
	content := func(x string) string { return file("    path    = \"/etc/a\"\n    content = " + x) }
	mode := func(m string) string { return content("\"\"\n    mode    = " + m) }
	const (
		name  = `It has lower case letters, digits, - and ., and begins and ends with a letter or a digit. Write "node-01".`
		owner = "Block kubelet_config of stage \"write\" writes it, at site.hcl:9:1. Change it there, or leave that " +
			"block out: kubelet_config { when = false }."
	)
	for mistake, c := range map[string]struct {
		site, want string // of the only message: code: summary: detail
	}{
		"a shell's variable": {content(`"exec ${HOME}/bin"`), `reference: Unknown name "HOME": ` +
			`${…} in a text is a reference, which begins with var., local., stage., node. or each. To write ${ itself: $${HOME}.`},
		"a log format": {content(`"log_format %{h}i"`), `syntax: Invalid template control keyword: ` +
			`%{ in a text begins a directive: if, for, else, endif, endfor. To write %{ itself: %%{.`},
		"a label without quotes": {write + "stage \"label\" \"l\" {\n  labels = { example.com/foo = \"b\" }\n}\n",
			`syntax: A key with / in it needs quotes: Put the whole key in quotes: "example.com/name" = …. ` +
				`Write a computed key in parentheses: (a + b) = ….`},
		"a taint as an object": {write + "stage \"taint\" \"l\" {\n  taints = [{ key = \"a\" }]\n}\n",
			`wrong-type: Wrong type for taints[0]: A string is needed, and this is an object. ` +
				`Write it as "gpu=true:NoSchedule", KEY=VALUE:EFFECT.`},
		"content as an object": {content(`{ a = 1 }`),
			`wrong-type: Wrong type for content: A string is needed, and this is an object. ` +
				`Encode it: jsonencode(…) or yamlencode(…).`},
		"a label as an object": {write + "stage \"label\" \"l\" {\n  labels = { a = { b = 1 } }\n}\n",
			`wrong-type: Wrong type for labels.a: A string is needed, and this is an object. Write one text, in quotes. MAP["KEY"] is one of a map.`},
		"a number for labels": {write + "stage \"label\" \"l\" {\n  labels = 5\n}\n",
			`wrong-type: Wrong type for labels: A map of string is needed, and this is a number. ` +
				`Write names and values in braces, as in { "a" = "b" }.`},
		"a string for a list": {strings.Replace(write, `["10.0.0.1:6443"]`, `"10.0.0.1:6443"`, 1),
			`wrong-type: Wrong type for servers: A list of string is needed, and this is a string. Write it in brackets: ["10.0.0.1:6443"].`},
		"a number for a list": {strings.Replace(write, `["10.0.0.1:6443"]`, `5`, 1),
			`wrong-type: Wrong type for servers: A list of string is needed, and this is a number. Write texts in brackets, as in ["a", "b"].`},
		"a list for an amount": {write + "stage \"reserve\" \"r\" {\n  policy = \"static\"\n  static { memory " +
			"= [1] }\n}\n",
			`wrong-type: Wrong type for memory: A string is needed, and this is a list. Write one text, without brackets. LIST[0] is the first of a list.`},
		"bytes for an amount": {write + "stage \"reserve\" \"r\" {\n  policy = \"static\"\n  static { memory = " +
			"\"16777215\" }\n}\n",
			`wrong-type: Wrong value for memory: "16777215" of memory is less than any machine needs: the least is 16Mi, or 0`},
		"a word for a number": {write + "stage \"reserve\" \"r\" {\n  policy   = \"gke\"\n  max_pods = \"lots\"\n}\n",
			`wrong-type: Wrong type for max_pods: A number is needed, and this is a string. Write digits, without quotes: 110.`},
		"contains of a text": {content(`contains("a", "Xeon") ? "" : "x"`), `evaluation: Error in function call: ` +
			`Call to function "contains" failed: argument must be list, tuple, or set. To look into a text: can(regex("Xeon", TEXT)).`},
		"a relative path": {file("    path    = \"etc/x\"\n    content = \"\""),
			`wrong-type: Wrong value for path: "etc/x" is not an absolute path: write "/etc/x"`},
		"the kubelet's file": {file("    path    = \"/var/lib/kubelet/config.yaml\"\n    content = \"\""),
			`conflict: Two owners of /var/lib/kubelet/config.yaml: ` + owner},
		"labels as a flag": {around + "stage \"write\" \"kubelet\" {\n  kubelet_flags { flags = { node-labels " +
			"= \"a=b\" } }\n}\n",
			`conflict: --node-labels is generated from stages and cannot be set here: Write a label as stage "label" "NAME" ` +
				`{ labels = { "KEY" = "VALUE" } }, a taint as stage "taint" "NAME" { taints = ["KEY=VALUE:EFFECT"] }.`},
		"a misspelt field": {around + "stage \"write\" \"kubelet\" {\n  kubelet_config { patch = { maxpods = " +
			"20 } }\n}\n",
			`kubelet-config: The kubelet would silently ignore maxpods: unknown field "maxpods": the kubelet silently ignores it ` +
				`(set by write.kubelet). Did you mean maxPods?`},
		"a decimal mode": {mode("420"), `wrong-type: Others have more permissions than the owner: Mode 0420 gives the owner less than others. ` +
			`It is octal, in quotes: mode = "0644" is 420 as a decimal number.`},
		"a mode for everyone": {mode(`"0777"`), `wrong-type: Everyone could write it: Mode 0777 lets every user change what root reads. ` +
			`Write mode = "0755".`},
		"a mode of a program that must be read-only": {mode(`"0440"`), ""},
		"a node name with capitals":                  {write + "node {\n  name = \"Node_01\"\n}\n", `node-name: "Node_01" is not a valid node name: ` + name},
		"memory without a unit": {write + "stage \"reserve\" \"r\" {\n  policy = \"static\"\n  static {\n    " +
			"cpu    = \"2\"\n    memory = \"8\"\n  }\n}\n",
			`wrong-type: Wrong value for memory: "8" of memory is 8 bytes: write a unit, as "8Gi"; the least is 16Mi, or 0`},
	} {
		o := ValidateOptions{Request: lab.Request{Where: machine.Where{Config: []string{writeTestFile(t, "site.hcl", c.site)}}}}
		v, err := Validate(newTestEnv(), o)
		must(t, err)
		var got []string
		for _, d := range v.Diagnostics {
			if code := origin.CodeOf(d); code != fault.Code("") {
				detail := strings.ReplaceAll(d.Detail, o.Config[0], "site.hcl")
				got = append(got, string(code)+": "+d.Summary+": "+detail)
			}
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", mistake, text, c.want)
		}
	}
}
