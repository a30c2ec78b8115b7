package boot

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/world"
)

// TestComplete is the one rule, for a check without a machine, for a boot, and for a replay of the boot's recording
// that was never asked some questions: a plan is complete when nothing that is not known reached a label, a taint, a
// flag, a file, a unit or a condition.
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
		name, site           string
		unread               world.Kind // what the recording was never asked
		check, replay, again bool       // again: of the whole recording
	}{
		{"nothing is asked", write(""), "", true, true, true},
		{"a label", write("") + fmt.Sprintf(label, "  labels = { \"example.com/a\" = "+unknown+" }\n"), world.KindFile, false,
			false, true},
		{"a label's key", write("") + fmt.Sprintf(label, "  labels = { \"example.com/${"+unknown+"}\" = \"a\" }\n"),
			world.KindFile, false, false, true},
		{"a label's condition", write("") + fmt.Sprintf(label,
			"  when = "+unknown+" == \"a\"\n  labels = { \"example.com/a\" = \"a\" }\n"),
			world.KindFile, false, false, true},
		{"copies of labels", write("") + fmt.Sprintf(label,
			"  for_each = toset(["+unknown+"])\n  labels = { \"example.com/a\" = each.key }\n"),
			world.KindFile, false, false, true},
		{"a taint", write("") + "stage \"taint\" \"a\" {\n  taints = [\"a=${" + unknown + "}:NoSchedule\"]\n}\n",
			world.KindFile, false, false, true},
		{"a file's content", write(fmt.Sprintf(aFile, unknown)), world.KindFile, false, false, true},
		{"a file's path", write("  file \"x\" {\n    path = \"/etc/${" + unknown + "}\"\n    content = \"\"\n  }\n"),
			world.KindFile, false, false, true},
		{"a file's condition", write("  file \"x\" {\n    when = " + unknown +
			" == \"a\"\n    path = \"/etc/x\"\n    content = \"\"\n  }\n"),
			world.KindFile, false, false, true},
		{"a flag", strings.Replace(write(""), "{ base = \"\" }",
			"{\n    base = \"\"\n    flags = { hostname-override = "+unknown+" }\n  }", 1), world.KindFile, false, false, true},
		{"a precondition", write("") + fmt.Sprintf(restart,
			"  precondition {\n    condition = "+unknown+" != \"\"\n    error_message = \"no\"\n  }\n"),
			world.KindFile, false, false, true},
		{"a unit", write("") + fmt.Sprintf(restart, "  unit = \"${"+unknown+"}.service\"\n"), world.KindFile, false, false,
			true},
		{"a node's name", "node {\n  name = " + unknown + "\n}\n" + write(""), world.KindFile, false, false, true},
		{"a fact that is used", detect + write(fmt.Sprintf(aFile, "stage.detect-hw.node.product.name")), world.KindHardware,
			false, false, true},
		// Whether the stage fails is a condition.
		{"facts that nothing uses", detect + write(""), world.KindHardware, false, false, true},
		{"a local that nothing uses", "locals {\n  a = " + unknown + "\n}\n" + write(""), world.KindFile, true, true, true},
		// The expression may have failed.
		{"the branch that is not taken", write(fmt.Sprintf(aFile, "true ? \"a\" : "+unknown)), world.KindFile, true, false,
			true},
		{"an element that is not taken", write(fmt.Sprintf(aFile, "["+unknown+", \"b\"][1]")), world.KindFile, true, false,
			true},
		{"an attribute that is not taken", write(fmt.Sprintf(aFile, "{ a = "+unknown+", b = \"b\" }[\"b\"]")),
			world.KindFile, true, false, true},
		{"a value that is replaced", write(fmt.Sprintf(aFile, "merge({ a = "+unknown+" }, { a = \"b\" })[\"a\"]")),
			world.KindFile, true, false, true},
		{"only the number of elements", write(fmt.Sprintf(aFile, "[for x in ["+unknown+"] : \"a\"][0]")), world.KindFile,
			true, false, true},
		{"only a key", write(fmt.Sprintf(aFile, "[for k, v in { a = "+unknown+" } : k][0]")), world.KindFile, true, false,
			true},
		{"an element of a local", "locals {\n  a = [" + unknown + ", \"b\"]\n}\n" + write(fmt.Sprintf(aFile, "local.a[1]")),
			world.KindFile, true, false, true},
		{"a local with an element", "locals {\n  a = [" + unknown + ", \"b\"][1]\n}\n" +
			write(fmt.Sprintf(aFile, "\"${local.a}${local.a}\"")), world.KindFile, true, false, true},
		{"an attribute that is not there", write(fmt.Sprintf(aFile, "\"${can("+unknown+".x)}\"")), world.KindFile, true,
			false, true},
		{"whether it works", write(fmt.Sprintf(aFile, "\"${can("+unknown+")}\"")), world.KindFile, false, false, true},
		{"the first that works", write(fmt.Sprintf(aFile, "try("+unknown+", \"b\")")), world.KindFile, false, false, true},
		{"a variable that nothing uses", "variable \"a\" {}\n" + write(""), world.KindVariable, true, false, true},
		{"a variable with a default that nothing uses", "variable \"a\" {\n  default = \"b\"\n}\n" + write(""),
			world.KindVariable, true, true, true},
		{"an element that is not a variable", "variable \"a\" {\n  default = \"b\"\n}\n" +
			write(fmt.Sprintf(aFile, "[var.a, \"b\"][1]")), world.KindVariable, true, false, true},
		{"the rule of a variable", "variable \"a\" {\n  sensitive = true\n  validation {\n    condition = " +
			"var.a != \"\"\n" +
			"    error_message = \"no\"\n  }\n}\n" + write(""), world.KindValidation, true, false, true},
		{"a file of CAs", patch("authentication = { x509 = { clientCAFile = \"/etc/a.crt\" } }"), world.KindExists, true,
			false, true},
		{"a file of CAs that may be refused", patch("authentication = { x509 = { clientCAFile = \"/etc/a.crt\" } }"),
			world.KindServing, true, false, true},
		{"a certificate", patch("tlsCertFile = \"/etc/a.crt\"\n      tlsPrivateKeyFile = \"/etc/a.key\""),
			world.KindServing, true, false, true},
		{"a path that is only warned of", patch("resolvConf = \"/etc/a\""), world.KindExists, true, true, true},
		{"what a version of the tables accepts", withFlag, world.KindAccepts, true, true, true},
		{"a token that nothing needs", token + write(""), world.KindCredential, false, true, true},
		{"the token of a file", token + strings.Replace(write(""), "bootstrap_kubeconfig { when = false }", "", 1),
			world.KindCredential, false, false, true},
		{"the file on the disk", write(fmt.Sprintf(aFile, "\"a\"")), world.KindTarget, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := runOnSample(mustParse(t, c.site), SampleMachine{Name: "unknown"}, CheckOptions{})
			if p := m.makePlan(); p.Complete != c.check {
				t.Errorf("a check: complete %t, want %t: %v %s", p.Complete, c.check, m.Unknown, showPlan(p))
			}
			src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
				if q.Kind == world.KindFile {
					return world.File.Answer(world.FileAns{Text: "a"})
				}
				switch q.Kind {
				case world.KindExists:
					return world.Exists.Answer(world.ExistsAns{Exists: true})
				case world.KindServing:
					return world.Serving.Answer(world.ServingAns{})
				case world.KindVariable:
					return world.Variable.Answer(world.VariableAns{Source: "credential", Text: "a"})
				case world.KindValidation:
					return world.Validation.Answer(world.ValidationAns{OK: true})
				}
				return answerAsUsual(q, map[string]any{"product": map[string]any{"name": "a"}})
			})
			p := Run(t.Context(), mustParse(t, c.site), Options{Source: src})
			if !p.Complete {
				t.Errorf("a boot: got %s\nwant a complete plan", showPlan(p))
			}
			whole := world.Recording{Entries: p.Tape.Entries()}
			if p := Run(t.Context(), mustParse(t, c.site), Options{Source: whole.Source()}); p.Complete != c.again {
				t.Errorf("a replay: complete %t, want %t: %s", p.Complete, c.again, showPlan(p))
			}
			part := world.Recording{}
			for _, e := range whole.Entries {
				if e.Kind != c.unread {
					part.Entries = append(part.Entries, e)
				}
			}
			if p := Run(t.Context(), mustParse(t, c.site), Options{Source: part.Source()}); p.Complete != c.replay ||
				(p.Hash != "") != c.replay {
				t.Errorf("a replay without %s: complete %t, want %t: %s", c.unread, p.Complete, c.replay, showPlan(p))
			}
		})
	}
}
