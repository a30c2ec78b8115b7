package evaluate

import (
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/model/origin"
)

// TestWordsNameFlags gives words that name the field of a flag: they are on the flag, and nothing else is an error.
func TestWordsNameFlags(t *testing.T) {
	for flags, words := range map[string]string{
		`{ log-json-info-buffer-size = "64Ki" }`: "initialize logging: logging.options.json.infoBufferSize: Forbidden: " +
			"Feature LoggingAlphaOptions is disabled",
		`{ container-runtime-endpoint = "" }`:          "invalid configuration: the containerRuntimeEndpoint was not specified or empty",
		`{ logging-format = "json", vmodule = "a=1" }`: "initialize logging: logging.vmodule: Forbidden: Only supported for text log format",
	} {
		site := strings.Replace(rulesSite("{}", ""), `{ base = "" }`, "{\n    base  = \"\"\n    flags = "+flags+"\n  }", 1)
		p := Run(t.Context(), mustParse(t, site), onKubelet("v1.37.1", refuses(words)))
		var found []string
		for _, d := range p.Diagnostics {
			if d.Severity == hcl.DiagError && !origin.IsNote(d) {
				extra, _ := d.Extra.(origin.Extra)
				found = append(found, extra.Item)
				if !strings.Contains(strings.Join(strings.Fields(d.Detail), " "), words) {
					t.Errorf("%s: got the error %s: %s, want the words of the kubelet", flags, d.Summary, d.Detail)
				}
			}
		}
		if len(found) != 1 || !strings.HasPrefix(found[0], "flag/") {
			t.Errorf("%s: got errors on %q, want one, on a flag", flags, found)
		}
	}
}

// TestWordsStandAlone gives all words of the corpus of refusals to sites whose own item the rules refuse, too. The
// words are on that item only if they name it; else they stand without its remedy.
func TestWordsStandAlone(t *testing.T) {
	text, err := os.ReadFile("../../model/kubelet/rules/testdata/refusals.yaml")
	must(t, err)
	var corpus []struct {
		Name, Says string
		Exits      bool
	}
	must(t, yaml.Unmarshal(text, &corpus))

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
			p := Run(t.Context(), mustParse(t, rulesSite(item.patch, "")), onKubelet("v1.37.1", refuses(c.Says)))
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
