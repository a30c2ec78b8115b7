package boot

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/world"
)

// TestComplete is the one rule, for a boot and for a replay of the boot's recording that was never asked some questions:
// a plan is complete, or fails at the place that needs a missing answer. A check without a machine is never complete.
func TestComplete(t *testing.T) {
	const (
		alone = "stage \"write\" \"kubelet\" {\n  bootstrap_kubeconfig { when = false }\n" +
			"  ca_certificate { when = false }\n" +
			"  kubelet_config { base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: " +
			"KubeletConfiguration\\n\" }\n" +
			"  kubelet_flags { base = \"\" }\n%s}\n"
		detect  = "stage \"detect-hw\" \"node\" {}\n"
		aFile   = "  file \"x\" {\n    path = \"/etc/x\"\n    content = %s\n  }\n"
		unknown = "file(\"/etc/given\")"
		label   = "stage \"label\" \"a\" {\n%s}\n"
		restart = "stage \"restart\" \"k\" {\n%s}\n"
	)
	const token = "cluster {\n  servers = [\"192.0.2.1:6443\"]\n  ca_cert_hashes = [\"sha256:" +
		"0000000000000000000000000000000000000000000000000000000000000000\"]\n  token = credential(\"t\")\n}\n" +
		"stage \"fetch-ca\" \"ca\" {}\n"
	write := func(more string) string { return fmt.Sprintf(alone, more) }
	patch := func(fields string) string {
		return strings.NewReplacer("kubelet_config { base", "kubelet_config {\n    base", "KubeletConfiguration\\n\" }",
			"KubeletConfiguration\\n\"\n    patch = {\n      "+fields+"\n    }\n  }").Replace(write(""))
	}
	withFlag := strings.Replace(write(""), "{ base = \"\" }", "{\n    base = \"\"\n    flags = { v = \"2\" }\n  }", 1)
	for _, c := range []struct {
		name, site string
		unread     world.Kind // what the recording was never asked
		replay     bool       // the plan without it is complete
	}{
		{"nothing is asked", write(""), "", true},
		{"a label", write("") + fmt.Sprintf(label, "  labels = { \"example.com/a\" = "+unknown+" }\n"), world.KindFile, false},
		{"a label's key", write("") + fmt.Sprintf(label, "  labels = { \"example.com/${"+unknown+"}\" = \"a\" }\n"),
			world.KindFile, false},
		{"a label's condition", write("") + fmt.Sprintf(label,
			"  when = "+unknown+" == \"a\"\n  labels = { \"example.com/a\" = \"a\" }\n"),
			world.KindFile, false},
		{"copies of labels", write("") + fmt.Sprintf(label,
			"  for_each = toset(["+unknown+"])\n  labels = { \"example.com/a\" = each.key }\n"),
			world.KindFile, false},
		{"a taint", write("") + "stage \"taint\" \"a\" {\n  taints = [\"a=${" + unknown + "}:NoSchedule\"]\n}\n",
			world.KindFile, false},
		{"a file's content", write(fmt.Sprintf(aFile, unknown)), world.KindFile, false},
		{"a file's path", write("  file \"x\" {\n    path = \"/etc/${" + unknown + "}\"\n    content = \"\"\n  }\n"),
			world.KindFile, false},
		{"a file's condition", write("  file \"x\" {\n    when = " + unknown +
			" == \"a\"\n    path = \"/etc/x\"\n    content = \"\"\n  }\n"),
			world.KindFile, false},
		{"a flag", strings.Replace(write(""), "{ base = \"\" }",
			"{\n    base = \"\"\n    flags = { hostname-override = "+unknown+" }\n  }", 1), world.KindFile, false},
		{"a precondition", write("") + fmt.Sprintf(restart,
			"  precondition {\n    condition = "+unknown+" != \"\"\n    error_message = \"no\"\n  }\n"),
			world.KindFile, false},
		{"a unit", write("") + fmt.Sprintf(restart, "  unit = \"${"+unknown+"}.service\"\n"), world.KindFile, false},
		{"a node's name", "node {\n  name = " + unknown + "\n}\n" + write(""), world.KindFile, false},
		{"a fact that is used", detect + write(fmt.Sprintf(aFile, "stage.detect-hw.node.product.name")), world.KindHardware, false},
		// Whether the stage fails is a condition.
		{"facts that nothing uses", detect + write(""), world.KindHardware, false},
		{"a local that nothing uses", "locals {\n  a = " + unknown + "\n}\n" + write(""), world.KindFile, true},
		// The expression may have failed.
		{"the branch that is not taken", write(fmt.Sprintf(aFile, "true ? \"a\" : "+unknown)), world.KindFile, true},
		{"an element that is not taken", write(fmt.Sprintf(aFile, "["+unknown+", \"b\"][1]")), world.KindFile, false},
		{"an attribute that is not taken", write(fmt.Sprintf(aFile, "{ a = "+unknown+", b = \"b\" }[\"b\"]")),
			world.KindFile, false},
		{"a value that is replaced", write(fmt.Sprintf(aFile, "merge({ a = "+unknown+" }, { a = \"b\" })[\"a\"]")),
			world.KindFile, false},
		{"only the number of elements", write(fmt.Sprintf(aFile, "[for x in ["+unknown+"] : \"a\"][0]")), world.KindFile, false},
		{"only a key", write(fmt.Sprintf(aFile, "[for k, v in { a = "+unknown+" } : k][0]")), world.KindFile, false},
		{"an element of a local", "locals {\n  a = [" + unknown + ", \"b\"]\n}\n" + write(fmt.Sprintf(aFile, "local.a[1]")),
			world.KindFile, false},
		{"a local with an element", "locals {\n  a = [" + unknown + ", \"b\"][1]\n}\n" +
			write(fmt.Sprintf(aFile, "\"${local.a}${local.a}\"")), world.KindFile, false},
		{"an attribute that is not there", write(fmt.Sprintf(aFile, "\"${can("+unknown+".x)}\"")), world.KindFile, false},
		{"whether it works", write(fmt.Sprintf(aFile, "\"${can("+unknown+")}\"")), world.KindFile, false},
		{"the first that works", write(fmt.Sprintf(aFile, "try("+unknown+", \"b\")")), world.KindFile, false},
		{"a variable that nothing uses", "variable \"a\" {}\n" + write(""), world.KindVariable, false},
		{"a variable with a default that nothing uses", "variable \"a\" {\n  default = \"b\"\n}\n" + write(""),
			world.KindVariable, false},
		{"an element that is not a variable", "variable \"a\" {\n  default = \"b\"\n}\n" +
			write(fmt.Sprintf(aFile, "[var.a, \"b\"][1]")), world.KindVariable, false},
		{"the rule of a variable", "variable \"a\" {\n  sensitive = true\n  validation {\n    condition = " +
			"var.a != \"\"\n" +
			"    error_message = \"no\"\n  }\n}\n" + write(""), world.KindValidation, false},
		{"a file of CAs", patch("authentication = { x509 = { clientCAFile = \"/etc/a.crt\" } }"), world.KindExists, true},
		{"a file of CAs that may be refused", patch("authentication = { x509 = { clientCAFile = \"/etc/a.crt\" } }"),
			world.KindServing, true},
		{"a certificate", patch("tlsCertFile = \"/etc/a.crt\"\n      tlsPrivateKeyFile = \"/etc/a.key\""),
			world.KindServing, true},
		{"a path that is only warned of", patch("resolvConf = \"/etc/a\""), world.KindExists, true},
		{"what a version of the tables accepts", withFlag, world.KindAccepts, true},
		{"a token that nothing needs", token + write(""), world.KindCredential, true},
		{"the token of a file", token + strings.Replace(write(""), "bootstrap_kubeconfig { when = false }", "", 1),
			world.KindCredential, true},
		{"the file on the disk", write(fmt.Sprintf(aFile, "\"a\"")), world.KindTarget, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := runOnSample(mustParse(t, c.site), SampleMachine{Name: "unknown"}, CheckOptions{}, defaultLimits())
			if p := m.makePlan(); p.Complete {
				t.Errorf("a check: got a complete plan, want none: %s", showPlan(p))
			}
			src := usualWith(map[world.Kind]world.Answer{
				world.KindFile:       world.File.Answer(world.FileAns{Text: "a"}),
				world.KindExists:     world.Exists.Answer(world.ExistsAns{Exists: true}),
				world.KindServing:    world.Serving.Answer(world.ServingAns{}),
				world.KindVariable:   world.Variable.Answer(world.VariableAns{Source: "credential", Text: "a"}),
				world.KindValidation: world.Validation.Answer(world.ValidationAns{OK: true}),
				world.KindHardware:   {Value: []byte(`{"product": {"name": "a"}}`)},
			})
			p := Run(t.Context(), mustParse(t, c.site), Options{Source: src})
			if !p.Complete {
				t.Errorf("a boot: got %s\nwant a complete plan", showPlan(p))
			}
			whole := world.Recording{Entries: p.Tape.Entries()}
			if p := Run(t.Context(), mustParse(t, c.site), Options{Source: whole.Source()}); !p.Complete {
				t.Errorf("a replay: got %s\nwant a complete plan", showPlan(p))
			}
			part := world.Recording{}
			for _, e := range whole.Entries {
				if e.Kind != c.unread {
					part.Entries = append(part.Entries, e)
				}
			}
			p = Run(t.Context(), mustParse(t, c.site), Options{Source: part.Source()})
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
