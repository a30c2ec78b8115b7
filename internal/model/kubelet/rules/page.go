package rules

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

const pageHead = `# Rules of the kubelet

` + "`plan`, `run`, `doctor` and `validate --kubelet-version` check the kubelet's flags and its configuration" + `
with these rules. Flags, fields and feature gates of %s to %s are known from Kubernetes' own source, and
[rules.txt](../../internal/model/kubelet/rules/rules.txt) has the source of each rule; the installed kubelet's
` + "`--help`" + ` overrides them. Rules about what the kubelet itself finds in a
[dry run](../operators/testing-sites.md#the-next-kubelet) are not applied to a plan that it accepts there.

*exits*: the kubelet does not start, or its Node is rejected. *ignores*: it runs, and silently does not do what is
configured; if the base sets that, the finding is at most a warning. *deprecated*: a later version will not accept it.
*ends*: a later version does not start on this machine. *differs*: it does something else than an older version.
*places*: it changes where pods are placed. *error, or newer*: for a kubelet that is newer than these versions it is a
warning, and all such findings are one message.

`

// Page returns the reference page of the rules as Markdown.
func Page() string {
	oldest, newest := known.Range()
	var page strings.Builder
	fmt.Fprintf(&page, pageHead, known.Version(oldest), known.Describe(newest))

	var kinds []string
	rows := map[string][]string{}
	for _, r := range All() {
		kind := string(r.Effect) + ": " + describeSeverity(r)
		if rows[kind] == nil {
			kinds = append(kinds, kind)
		}
		rows[kind] = append(rows[kind], fmt.Sprintf("| `%s` | %s%s |\n", r.ID, r.Summary, describeVersions(r)))
	}
	for _, kind := range kinds {
		fmt.Fprintf(&page, "\n## %s\n\n| rule | rejects |\n|---|---|\n%s", kind, strings.Join(rows[kind], ""))
	}

	return page.String()
}

func describeSeverity(r Rule) string {
	if r.Lists && r.Severity == Error {
		return "error, or newer"
	}

	return string(r.Severity)
}

func describeVersions(r Rule) string {
	if r.Since == 0 {
		return ""
	}
	if r.Until == 0 {
		return " (from " + known.Describe(r.Since) + ")"
	}

	return fmt.Sprintf(" (1.%d to 1.%d)", r.Since, r.Until-1)
}
