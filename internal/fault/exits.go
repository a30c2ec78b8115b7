package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ExitStatus describes one exit status of prelet.
type ExitStatus struct {
	Status  int
	Meaning string
	FixedBy string // the people who can fix it; "-" if there is nothing to fix
	Again   Again
}

// Again describes whether systemd starts prelet again by itself.
type Again string

// The values, as set with RestartPreventExitStatus= of the units.
const (
	AgainYes    Again = "yes"      // with a growing delay: the cause is elsewhere and may be fixed there
	AgainNo     Again = "no"       // only a change on the node helps
	AgainAtBoot Again = "at boot"  // by prelet.service only: at run time the plan is held instead
	AgainNever  Again = "no units" // no unit runs a command that ends with it
)

// ExitStatuses returns all exit statuses, in order.
func ExitStatuses() []ExitStatus {
	return []ExitStatus{
		{0, "Done. Also if the node is degraded: `prelet status` reports that.", "-", AgainNever},
		{
			2,
			"`plan --detailed-exitcode`: there are changes, or the plan is not complete.",
			"-",
			AgainNever,
		},
		{
			3,
			"A check found a problem: `doctor`, `fmt --check`, `seal`, `test`, `--fail-above`. " +
				"`analyze`: no finished run of this boot. `upgrade`: something changes, or a kubelet may exit.",
			"the site's author",
			AgainNever,
		},
		{
			10,
			"The site is not valid, or does not fit this node's files. `--strict`: warnings, of `plan` notes too. " +
				"`upgrade`: a kubelet would not start.",
			"the site's author; then the node needs the new site",
			AgainNo,
		},
		{
			11,
			"A credential is needed and cannot be read.",
			"the operators who provision nodes",
			AgainYes,
		},
		{
			20,
			"No apiserver answered by the deadline; or no registry did, or what it has is not a site.",
			"the operators of the network, the cluster or the registry",
			AgainYes,
		},
		{
			21,
			"The server is not the cluster that the site trusts: TLS, pin, signature.",
			"the cluster's operators; it may be an attack",
			AgainYes,
		},
		{
			22,
			"The cluster or a registry denies access: token, certificate, rights; or another machine has the node's " +
				"name.",
			"the operators of the cluster or the registry",
			AgainYes,
		},
		{23, "The server's response cannot be used.", "the cluster's operators", AgainYes},
		{
			30,
			"The hardware cannot be read, the site requires more of it, or a file that the site waits for is missing.",
			"the machine's operators, or the site's author",
			AgainYes,
		},
		{31, "A required detector failed.", "the operators who install detectors", AgainYes},
		{40, "A file cannot be written. Nothing was changed.", "the machine's operators", AgainYes},
		{
			41,
			"A file changed during a commit, or the state folder while prelet worked; or a newer prelet has to finish.",
			"the machine's operators, by hand",
			AgainNo,
		},
		{
			42,
			"Stopped by a signal, with nothing changed, or after the commit. The next run finishes it.",
			"-",
			AgainYes,
		},
		{
			50,
			"The kubelet was not healthy, and the last good generation is back. `verify`: it is not healthy.",
			"the site's author",
			AgainAtBoot,
		},
		{
			51,
			"The kubelet is not healthy on the last good generation either.",
			"the machine's operators",
			AgainNo,
		},
		{
			52,
			"systemd: the kubelet's unit cannot be started and stopped, its gate is missing, D-Bus does not answer.",
			"the machine's operators",
			AgainYes,
		},
		{64, "The command line is not valid.", "the caller", AgainNo},
		{70, "An internal error of prelet.", "prelet's authors: please report it", AgainYes},
		{75, "Another prelet held the lock until the deadline.", "-", AgainYes},
	}
}

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

// ExitStatusPage returns docs/reference/exit-codes.md.
func ExitStatusPage() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(exitStatusHead, "~", "`"))

	for _, s := range ExitStatuses() {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", s.Status, s.Meaning, s.FixedBy, s.Again)
	}

	b.WriteString(strings.ReplaceAll(exitStatusTail, "~", "`"))

	return b.String()
}

// CodePages returns the pages of docs/codes by file name, including the index.
func CodePages() map[string]string {
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
	for _, c := range Codes() {
		p, _ := c.Page()
		out[string(c)+".md"] = p.Markdown(c)

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
