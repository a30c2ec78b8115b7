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
			"  kubelet_config { base = \"apiVersion: kubelet.config.k8s.io/v1beta1\\nkind: KubeletConfiguration\\n\" }\n" +
			"  kubelet_flags { base = \"\" }\n%s}\n"
		detect  = "stage \"detect-hw\" \"node\" {}\n"
		aFile   = "  file \"x\" {\n    path = \"/etc/x\"\n    content = %s\n  }\n"
		unknown = "file(\"/etc/given\")"
		label   = "stage \"label\" \"a\" {\n%s}\n"
		restart = "stage \"restart\" \"k\" {\n%s}\n"
	)
	write := func(more string) string { return fmt.Sprintf(alone, more) }
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
		{"a fact that is used", detect + write(fmt.Sprintf(aFile, "stage.detect-hw.node.product.name")), world.KindFacts,
			false, false, true},
		// Whether the stage fails is a condition.
		{"facts that nobody uses", detect + write(""), world.KindFacts, false, false, true},
		{"a local that nobody uses", "locals {\n  a = " + unknown + "\n}\n" + write(""), world.KindFile, true, true, true},
		// The expression may have failed.
		{"the branch that is not taken", write(fmt.Sprintf(aFile, "true ? \"a\" : "+unknown)), world.KindFile, true, false,
			true},
		{"the file on the disk", write(fmt.Sprintf(aFile, "\"a\"")), world.KindTarget, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := runOnWitness(mustParse(t, c.site), Witness{Name: "unknown"}, "", Options{})
			if p := m.makePlan(); p.Complete != c.check {
				t.Errorf("a check: complete %t, want %t: %v %s", p.Complete, c.check, m.Unknown, showPlan(p))
			}
			src := world.SourceFunc(func(_ context.Context, q world.Question) world.Answer {
				if q.Kind == world.KindFile {
					return world.File.Answer(world.FileAns{Text: "a"})
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
