package fault

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
