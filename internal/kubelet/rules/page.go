package rules

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
)

// Page is the reference page of the rules, as Markdown.
func Page() string {
	oldest, newest := known.Range()
	var b strings.Builder
	fmt.Fprintf(&b, "# Rules of the kubelet\n\n"+
		"What `plan`, `run`, `doctor` and `validate --kubelet-version` judge the kubelet's flags and its configuration by. Flags, fields\n"+
		"and feature gates are known from 1.%d to 1.%d, out of Kubernetes' own source; of the binary at hand its `--help` counts.\n\n"+
		"*exits*: the kubelet does not start, or its Node is refused. *swallows*: it runs, does not do what the text says, and says\n"+
		"nothing. *later*: a later version will not take it. *differs*: the same text means something else than to an older version. What the base brings and the kubelet only swallows is a warning at most.\n\n"+
		"| rule | minds | kubelet | since | here | read in |\n|---|---|---|---|---|---|\n", oldest, newest)
	seen := map[string]bool{}
	for _, r := range All() {
		if seen[r.ID] {
			continue
		}
		seen[r.ID] = true
		when := ""
		if r.Since > 0 {
			when = fmt.Sprintf("1.%d", r.Since)
		}
		if r.Until > 0 {
			when += fmt.Sprintf(", until 1.%d", r.Until-1)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.ID, r.Minds, r.Does, strings.TrimPrefix(when, ", "), r.Severity, r.Source)
	}
	return b.String()
}
