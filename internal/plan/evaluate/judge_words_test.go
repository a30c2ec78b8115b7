package evaluate

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
)

// TestWordsStandAlone gives all words of the corpus of refusals to sites whose own item the rules refuse, too. The
// words are on that item only if they name it; else they stand without its remedy.
func TestWordsStandAlone(t *testing.T) {
	text, err := os.ReadFile("../../model/kubelet/rules/testdata/refusals.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var corpus []struct {
		Name, Says string
		Exits      bool
	}
	if err := yaml.Unmarshal(text, &corpus); err != nil {
		t.Fatal(err)
	}

	items := []struct{ field, patch string }{
		{"syncFrequency", `{ syncFrequency = "ten seconds" }`},
		{"maxPods", `{ maxPods = -7 }`},
		{"evictionHard", `{ evictionHard = { "nosuch.item" = "5%" } }`},
		{"authentication", `{ authentication = { webhook = { enabled = true, cacheTTL = "two minutes" } } }`},
	}
	cases := 0
	for _, c := range corpus {
		if !c.Exits || c.Says == "" {
			continue
		}
		for _, item := range items {
			if strings.Contains(c.Says, item.field) || strings.Contains(c.Says, "unsupported eviction signal") {
				continue
			}
			cases++
			version := "v1.37.1"
			p := Run(t.Context(), mustParse(t, rulesSite(item.patch, "")), RunInput{
				Source: usualWith(map[tape.Kind]tape.Answer{
					tape.KindKubelet: tape.Kubelet.Answer(tape.KubeletAns{Version: &version}),
					tape.KindDryRun:  tape.DryRun.Answer(tape.DryRunAns{Refusal: c.Says, Program: "/usr/bin/kubelet"}),
				}),
				Finished: func(judge.FinishedKubelet) {},
			})
			words, others := 0, 0
			for _, d := range p.Diagnostics {
				extra, _ := d.Extra.(origin.Extra)
				isWords := strings.Contains(strings.Join(strings.Fields(d.Detail), " "), strings.Join(strings.Fields(c.Says), " "))
				isOfItem := strings.HasPrefix(extra.Item, "config/"+item.field)
				switch {
				case isWords && isOfItem:
					t.Errorf("%s, with a wrong %s: got the words on it: %s: %s", c.Name, item.field, d.Summary, d.Detail)
				case isWords:
					words++
				case isOfItem && d.Severity == hcl.DiagError:
					others++
				}
			}
			if words != 1 {
				t.Errorf("%s, with a wrong %s: got the words %d times in %v, want once", c.Name, item.field, words, p.Diagnostics)
			}
			if others == 0 {
				t.Errorf("%s, with a wrong %s: got %v, want the item with its own remedy", c.Name, item.field, p.Diagnostics)
			}
		}
	}
	t.Logf("%d cases", cases)
	if cases < 400 {
		t.Errorf("got %d cases, want the corpus", cases)
	}
}
