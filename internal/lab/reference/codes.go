package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
)

// ~ is a backquote in the texts of the page.
const exitStatusHead = `# Exit statuses

A command that ends with an error has the status of the first error; later errors mostly follow from it. The column
"again" shows whether systemd starts prelet.service again by itself after this status: with a growing delay if the
cause can be fixed elsewhere, and never if only a change on the node helps.

On a node that has joined and has a good generation, 20 to 23 do not fail the boot: the last good responses are used,
and the boot is degraded (~on_cluster_error~).

Each message also has a [code](../codes/README.md), with a page on its cause and remedy.

| status | means | fixed by | again |
|---|---|---|---|
`

const exitStatusTail = `
~at boot~: prelet.service tries again, prelet-apply.service and prelet-verify.service do not. ~no units~: nothing to
restart.

~prelet status~ has its own statuses: 0 healthy, 1 failed, 2 degraded, 3 not run in this boot, or still running, the
check of the kubelet included. With ~--image~: 0 the image works, or nothing is known, 1 it does not.
~prelet verify~: 0 healthy, 50 unhealthy, 51 unhealthy after a rollback too.

If Go's runtime cannot continue (no thread, no memory), prelet ends by SIGABRT (134 in a shell) without a core dump. If
the runtime cannot start, with less than four tasks left (~TasksMax=~, ~pids.max~), it ends with 2 and ~runtime:~ on
stderr, before any output of prelet: a script that reads 2 as "there are changes" must check for a plan on stdout as
well. 200 to 243 are systemd's: it could not start the unit, and ~prelet status~ shows why.
`

// exitStatusPage returns docs/reference/exit-codes.md.
func exitStatusPage() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(exitStatusHead, "~", "`"))

	for _, s := range fault.ExitStatuses() {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", s.Status, s.Meaning, s.FixedBy, s.Again)
	}

	b.WriteString(strings.ReplaceAll(exitStatusTail, "~", "`"))

	return b.String()
}

// codePages returns the pages of docs/codes by file name, including the index.
func codePages() map[string]string {
	out := map[string]string{}

	var index strings.Builder
	index.WriteString(
		"# Codes of messages\n\n" +
			"Each message of prelet has a code. `prelet explain code/NAME` prints its page. A warning does\n" +
			"not change the exit status, except with --strict of `plan` and `validate`, nor does a note,\n" +
			"except with `plan --strict`.\n\n" +
			"| exit status | codes |\n|---|---|\n",
	)

	byStatus := map[string][]string{}
	for _, c := range fault.Codes() {
		p, _ := c.Page()
		out[string(c)+".md"] = codePage(c, p)

		status := fmt.Sprintf("%02d", c.Exit())
		switch {
		case p.Note:
			status = "note"
		case p.Warning:
			status = "warning"
		}
		byStatus[status] = append(byStatus[status], fmt.Sprintf("[%s](%[1]s.md)", c))
	}

	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		fmt.Fprintf(&index, "| %s | %s |\n", strings.TrimLeft(status, "0"), strings.Join(byStatus[status], ", "))
	}

	out["README.md"] = index.String()

	return out
}

// codePage returns the page of a code as in docs/codes.
func codePage(c fault.Code, p fault.Page) string {
	status := fmt.Sprintf("Exit status: [%d](../reference/exit-codes.md).", c.Exit())
	switch {
	case p.Note:
		status = "A note."
	case p.Warning:
		status = "A warning."
	}

	return fmt.Sprintf("# %s\n\n**%s.** %s\n\n%s\n", c, p.Title, status, p.Text)
}
