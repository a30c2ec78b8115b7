package evaluate

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/limit"
)

// TestComplete is the one rule, for a boot and for a replay of the boot's recording that was never asked some questions:
// a plan is complete, or fails at the place that needs a missing answer. A check without a machine is never complete.
func TestComplete(t *testing.T) {
	const detect = "stage \"detect-hw\" \"node\" {}\n"
	write := func(more string) string { return rulesSite("{}", more) }
	patch := func(fields string) string { return rulesSite("{\n"+fields+"\n}", "") }
	after := func(block string) string { return block + "\n" + write("") }
	label := func(body string) string { return after(`stage "label" "a" {` + body + "}") }
	restart := func(body string) string { return after(`stage "restart" "k" {` + body + "}") }
	content := func(expression string) string {
		return write("  file \"x\" {\n    path = \"/etc/x\"\n    content = " + expression + "\n  }\n")
	}
	flag := func(site, flags string) string {
		return strings.Replace(site, `kubelet_flags { base = "" }`, "kubelet_flags {\n    base = \"\"\n    flags = "+flags+"\n  }", 1)
	}
	token := strings.Replace(cluster, "}\n", "  token = credential(\"t\")\n}\nstage \"fetch-ca\" \"ca\" {}\n", 1)

	type caseOf struct {
		name, site string
		unread     tape.Kind // what the recording was never asked
		replay     bool      // the plan without it is complete
	}
	cases := []caseOf{
		{"nothing is asked", write(""), "", true},
		{"a fact that is used", detect + content(`stage.detect-hw.node.product.name`), tape.KindHardware, false},
		// Whether the stage fails is a condition.
		{"facts that nothing uses", detect + write(""), tape.KindHardware, false},
		{"a local that nothing uses", after(`locals { a = file("/etc/given") }`), tape.KindFile, true},
		{"the branch that is not taken", content(`true ? "a" : file("/etc/given")`), tape.KindFile, true},
		{"a variable that nothing uses", after(`variable "a" {}`), tape.KindVariable, false},
		{"a variable with a default that nothing uses", after(`variable "a" { default = "b" }`), tape.KindVariable, false},
		{"an element that is not a variable", `variable "a" { default = "b" }` + "\n" + content(`[var.a, "b"][1]`),
			tape.KindVariable, false},
		{"the rule of a variable", after(`variable "a" {
  sensitive = true
  validation {
    condition     = var.a != ""
    error_message = "no"
  }
}`), tape.KindValidation, false},
		{"a file of CAs", patch(`authentication = { x509 = { clientCAFile = "/etc/a.crt" } }`), tape.KindExists, true},
		{"a file of CAs that may be refused", patch(`authentication = { x509 = { clientCAFile = "/etc/a.crt" } }`),
			tape.KindServing, true},
		{"a certificate", patch("tlsCertFile = \"/etc/a.crt\"\ntlsPrivateKeyFile = \"/etc/a.key\""), tape.KindServing, true},
		{"a path that is only warned of", patch(`resolvConf = "/etc/a"`), tape.KindExists, true},
		{"what a version of the tables accepts", flag(write(""), `{ v = "2" }`), tape.KindAccepts, true},
		{"a token that nothing needs", token + write(""), tape.KindCredential, true},
		{"the token of a file", token + strings.Replace(write(""), "bootstrap_kubeconfig { when = false }", "", 1),
			tape.KindCredential, true},
		{"the file on the disk", content(`"a"`), tape.KindTarget, true},
	}
	for name, site := range map[string]string{
		"a label":       label(` labels = { "example.com/a" = file("/etc/given") } `),
		"a label's key": label(` labels = { "example.com/${file("/etc/given")}" = "a" } `),
		"a label's condition": label(`
  when   = file("/etc/given") == "a"
  labels = { "example.com/a" = "a" }
`),
		"copies of labels": label(`
  for_each = toset([file("/etc/given")])
  labels   = { "example.com/a" = each.key }
`),
		"a taint":          after(`stage "taint" "a" { taints = ["a=${file("/etc/given")}:NoSchedule"] }`),
		"a file's content": content(`file("/etc/given")`),
		"a file's path": write(`file "x" {
    path    = "/etc/${file("/etc/given")}"
    content = ""
  }
`),
		"a file's condition": write(`file "x" {
    when    = file("/etc/given") == "a"
    path    = "/etc/x"
    content = ""
  }
`),
		"a flag": flag(write(""), `{ hostname-override = file("/etc/given") }`),
		"a precondition": restart(`
  precondition {
    condition     = file("/etc/given") != ""
    error_message = "no"
  }
`),
		"a unit":                         restart(` unit = "${file("/etc/given")}.service" `),
		"a node's name":                  after(`node { name = file("/etc/given") }`),
		"an element that is not taken":   content(`[file("/etc/given"), "b"][1]`),
		"an attribute that is not taken": content(`{ a = file("/etc/given"), b = "b" }["b"]`),
		"a value that is replaced":       content(`merge({ a = file("/etc/given") }, { a = "b" })["a"]`),
		"only the number of elements":    content(`[for x in [file("/etc/given")] : "a"][0]`),
		"only a key":                     content(`[for k, v in { a = file("/etc/given") } : k][0]`),
		"an element of a local":          `locals { a = [file("/etc/given"), "b"] }` + "\n" + content("local.a[1]"),
		"a local with an element": `locals { a = [file("/etc/given"), "b"][1] }` + "\n" +
			content(`"${local.a}${local.a}"`),
		"an attribute that is not there": content(`"${can(file("/etc/given").x)}"`),
		"whether it works":               content(`"${can(file("/etc/given"))}"`),
		"the first that works":           content(`try(file("/etc/given"), "b")`),
	} {
		cases = append(cases, caseOf{name, site, tape.KindFile, false})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := runOnSample(mustParse(t, c.site), SampleMachine{Name: "unknown"}, CheckOptions{}, limit.Default())
			if p := m.makePlan(); p.Complete {
				t.Errorf("a check: got a complete plan, want none: %s", showPlan(p))
			}
			src := usualWith(map[tape.Kind]tape.Answer{
				tape.KindFile:       tape.File.Answer(tape.FileAns{Text: "a"}),
				tape.KindExists:     tape.Exists.Answer(tape.ExistsAns{Exists: true}),
				tape.KindServing:    tape.Serving.Answer(tape.ServingAns{}),
				tape.KindVariable:   tape.Variable.Answer(tape.VariableAns{Source: "credential", Text: "a"}),
				tape.KindValidation: tape.Validation.Answer(tape.ValidationAns{OK: true}),
				tape.KindHardware:   {Value: []byte(`{"product": {"name": "a"}}`)},
			})
			p := Run(t.Context(), mustParse(t, c.site), RunInput{Source: src})
			if !p.Complete {
				t.Errorf("a boot: got %s\nwant a complete plan", showPlan(p))
			}
			whole := tape.Recording{Entries: p.Tape.Entries()}
			if p := Run(t.Context(), mustParse(t, c.site), RunInput{Source: whole.Source()}); !p.Complete {
				t.Errorf("a replay: got %s\nwant a complete plan", showPlan(p))
			}
			part := tape.Recording{}
			for _, e := range whole.Entries {
				if e.Kind != c.unread {
					part.Entries = append(part.Entries, e)
				}
			}
			p = Run(t.Context(), mustParse(t, c.site), RunInput{Source: part.Source()})
			code := fault.Unread
			if c.replay {
				code = ""
			}
			if p.Complete != c.replay || (p.Hash != "") != c.replay || p.Code() != code {
				t.Errorf("a replay without %s: complete %t, want %t: %s", c.unread, p.Complete, c.replay, showPlan(p))
			}
		})
	}
}
