package fault

import (
	"fmt"
	"strings"
)

// ExitStatus describes one exit status of prelet.
type ExitStatus struct {
	Status  int
	Meaning string
	FixedBy string // who or what fixes it
	Again   Again
}

// Again is whether systemd starts prelet again by itself.
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
		{0, "Done. Degraded too: `prelet status` says so.", "nobody", AgainNever},
		{2, "`plan --detailed-exitcode`: there are changes, or the plan is not complete.", "nobody", AgainNever},
		{3, "A check found a problem: `doctor`, `fmt --check`.", "who wrote the site", AgainNever},
		{
			10,
			"The site is not valid, or does not fit this node's files.",
			"who wrote the site; the node after it got the new one",
			AgainNo,
		},
		{11, "A credential is needed and cannot be read.", "who provisions nodes", AgainYes},
		{20, "No apiserver answered by the deadline.", "who runs the network or the cluster", AgainYes},
		{
			21,
			"The server is not the cluster that the site trusts: TLS, pin, signature.",
			"who runs the cluster; beware of an attack",
			AgainYes,
		},
		{22, "The cluster denies it: token, certificate, rights; or another machine has the node's name.", "who runs the cluster", AgainYes},
		{23, "What the server gave cannot be used.", "who runs the cluster", AgainYes},
		{
			30,
			"The hardware cannot be read, is not enough for what the site asks, or a file that the site waits for has not come.",
			"who runs the machine, or who wrote the site",
			AgainYes,
		},
		{31, "A required detector failed.", "who installs detectors", AgainYes},
		{40, "A file cannot be written. Nothing was changed.", "who runs the machine", AgainYes},
		{
			41,
			"Recovery needs a person. Nothing was touched, and the kubelet does not start.",
			"who runs the machine, by hand",
			AgainNo,
		},
		{
			42,
			"Stopped by a signal with nothing changed, or after the commit. The next run finishes it.",
			"nobody",
			AgainYes,
		},
		{
			50,
			"The kubelet was not healthy, and the last good generation is back. `verify`: it is not healthy.",
			"who wrote the site",
			AgainAtBoot,
		},
		{51, "The kubelet is not healthy on the last good generation either.", "who runs the machine", AgainNo},
		{
			52,
			"systemd: the kubelet's unit cannot be started and stopped, the gate is not in it, D-Bus does not answer.",
			"who runs the machine",
			AgainYes,
		},
		{64, "The command line is not right.", "who typed it", AgainNo},
		{70, "A fault of prelet.", "its authors: please report it", AgainYes},
		{75, "Another prelet held the lock until the deadline.", "nobody", AgainYes},
	}
}

// ExitStatusPage returns docs/reference/exit-codes.md.
func ExitStatusPage() string {
	var b strings.Builder
	b.WriteString(`# Exit statuses

A command that ends with an error has the status of the first one; later errors mostly follow from it. What "again"
says is whether systemd starts prelet.service again by itself after this status: slower each time, for what is mended
elsewhere, and not at all for what only a change on the node can mend.

`)
	b.WriteString(
		"On a node that has joined and has a good generation, 20 to 23 do not fail the boot: the last good answers " +
			"are used, and\n" +
			"the boot is degraded (`on_cluster_error`).\n\n" +
			"| status | means | who mends it | again |\n|---|---|---|---|\n",
	)

	for _, s := range ExitStatuses() {
		fmt.Fprintf(&b, "| [%d](#%[1]d) | %s | %s | %s |\n", s.Status, s.Meaning, s.FixedBy, s.Again)
	}

	b.WriteString(
		"\n`at boot`: prelet.service tries again, prelet-apply.service and prelet-verify.service do not. " +
			"`no units`: nothing to\nrestart.\n\n" +
			"`prelet status` has statuses of its own: 0 well, 1 failed, 2 degraded, " +
			"3 not run in this boot, or still running,\n" +
			"the verdict on the kubelet included.\n" +
			"`prelet verify`: 0 healthy, 50 not.\n\n" +
			"Where Go's runtime cannot go on (no thread, no memory), prelet ends by SIGABRT (134 in a shell), and leaves no\n" +
			"core. Where it cannot even begin, with less than four tasks left (`TasksMax=`, `pids.max`), the runtime ends with 2\n" +
			"and `runtime:` on stderr, before a line of prelet: a script that reads 2 as \"there are changes\" looks for a plan\n" +
			"on stdout as well. 200 to 243 are systemd's: it could not start the unit, and `prelet status` says why.\n\n" +
			"## Codes by status\n",
	)

	for _, s := range ExitStatuses() {
		if codes := listCodes(s.Status); len(codes) > 0 {
			fmt.Fprintf(&b, "\n### %d\n\n%s\n\n%s\n", s.Status, s.Meaning, strings.Join(codes, ", "))
		} else {
			fmt.Fprintf(&b, "\n### %d\n\n%s\n", s.Status, s.Meaning)
		}
	}

	return b.String()
}

func listCodes(status int) (out []string) {
	for _, c := range Codes() {
		if p, _ := c.Page(); c.Exit() == status && !p.Warning {
			out = append(out, fmt.Sprintf("[%s](../codes/%[1]s.md)", c))
		}
	}

	return out
}

// CodePages returns the pages of docs/codes by file name, including the index.
func CodePages() map[string]string {
	out := map[string]string{}

	var index strings.Builder
	index.WriteString(
		"# Codes of messages\n\nEach message of prelet has a code. `prelet explain code/NAME` prints its page.\n\n" +
			"| code | means | exit status |\n|---|---|---|\n",
	)

	for _, c := range Codes() {
		p, _ := c.Page()
		out[string(c)+".md"] = p.Markdown(c)

		status := fmt.Sprint(c.Exit())
		if p.Warning {
			status = "warning"
		}

		fmt.Fprintf(&index, "| [%s](%[1]s.md) | %s | %s |\n", c, p.Title, status)
	}

	out["README.md"] = index.String()

	return out
}
