package rules

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/kubelet/known"
)

const pageHead = `# Rules of the kubelet

` + "`plan`, `run`, `doctor` and `validate --kubelet-version` check the kubelet's flags and its configuration" + `
with these rules. Flags, fields and feature gates of %s to %s are known from Kubernetes' own source, and
[rules.txt](../../internal/kubelet/rules/rules.txt) has the source of each rule; the installed kubelet's
` + "`--help`" + ` overrides them. What the kubelet itself finds in a
[dry run](../operators/testing-sites.md#the-next-kubelet) overrides the rules that say so below.

*exits*: the kubelet does not start, or its Node is rejected. *ignores*: it runs, and silently does not do what is
configured. *deprecated*: a later version will not accept it. *ends*: it runs on this machine, and a later version
does not start on it. *differs*: it does something else than an older version with the same configuration. If the
base, not the site, sets what the kubelet silently ignores, the finding is at most a warning.

Severity *error, or newer*: the rule compares with names, words or ranges of these versions. For a kubelet that is newer
it is a warning, and all such findings are one message. What none of these versions accepts is an error also where the
kubelet's version is not known.

| rule | rejects | kubelet | since | severity |
|---|---|---|---|---|
`

// Page returns the reference page of the rules as Markdown.
func Page() string {
	oldest, newest := known.Range()
	var page strings.Builder
	fmt.Fprintf(&page, pageHead, known.Version(oldest), known.Describe(newest))
	for _, r := range All() {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n",
			r.ID, r.Summary, r.Effect, describeVersions(r), describeSeverity(r))
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
		return known.Describe(r.Since)
	}

	return fmt.Sprintf("1.%d, until 1.%d", r.Since, r.Until-1)
}
