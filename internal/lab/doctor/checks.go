package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// lookedFor is where the kubelet is looked for.
const lookedFor = "it is looked for where its unit starts it, and in /usr/bin, /usr/local/bin and /opt/bin"

// checkKubelet checks the kubelet. The plan checks its flags.
func (in *Observations) checkKubelet(r *check.Recorder) {
	k := in.Kubelet
	switch {
	case k.Path == "" && k.Unread != nil:
		r.Unread("whether there is a kubelet is not known", k.Unread.Error(), stepFor(k.Unread))
		return
	case k.Path == "":
		r.Problem("no kubelet was found", lookedFor, "install it in the image")
		return
	case k.Version == "" && in.Image != nil:
		r.Unread(
			"the version of "+k.Path+" is not known",
			"a program below another root is not started",
			"run prelet inside of the image, or name --kubelet-version",
		)
	case k.Version == "":
		r.Problem(
			k.Path+" does not report its version",
			"a kubelet that does not report its version is not started",
			k.Path+" --version",
		)
	case in.Image != nil && !isSameMinor(in.Image.Reported, k.Version):
		r.Problem(
			k.Path+" is "+in.Image.Reported+", and --kubelet or --kubelet-version is "+k.Version,
			"the site would be judged for another kubelet",
			"leave that out, or install that kubelet in the image",
		)
	}
	r.Fine(k.Version + ", " + k.Path)
}

// isSameMinor reports whether two versions are of one minor version, or one of them is not a version.
func isSameMinor(a, b string) bool {
	minorA, isA := known.Minor(a)
	minorB, isB := known.Minor(b)

	return !isA || !isB || minorA == minorB
}

// checkUnits returns the checks of the units that a boot needs: the kubelet's as systemd loaded it, in an image that
// and prelet's own.
func (in *Observations) checkUnits() (l check.List) {
	for _, u := range in.listUnits() {
		if u.Err == nil {
			l = append(l, activation.CheckUnit(&u.Unit, in.Gate, nil, nil))
		}
		l.Add("unit", check.Running|check.Files, func(r *check.Recorder) { in.checkUnit(r, u) })
	}

	return l
}

func (in *Observations) listUnits() []NeededUnit {
	switch u := in.Unit; {
	case in.Image != nil:
		return in.Image.listUnits()
	case !in.Systemd:
		return nil
	case strings.HasPrefix(u.File, "masked"): // systemd has not read its files again
		u.Load = "masked"
		return []NeededUnit{u}
	default:
		return []NeededUnit{u}
	}
}

// systemctl returns a command of systemctl about the units of the node or of the image.
func (in *Observations) systemctl(command string) string {
	if in.Image == nil || in.Image.Root == "" {
		return "systemctl " + command
	}

	return "systemctl --root " + in.Image.Root.Word("/") + " " + command
}

func (in *Observations) checkUnit(r *check.Recorder, u NeededUnit) {
	switch {
	case u.Err != nil && in.Image != nil:
		r.Unread(u.Name+" cannot be read", nodefile.Reason(u.Err), stepFor(u.Err))
	case u.Err != nil:
		r.Unread(
			fmt.Sprintf("cannot get the state of %s from systemd", u.Name),
			u.Err.Error(),
			"run it as root, or look at systemctl status "+u.Name,
		)
	case u.Load == "loaded" && u.File == "disabled":
		r.Warn(
			u.Name+" is not enabled",
			"it does not start at boot: prelet starts no kubelet that is disabled",
			in.systemctl("enable ")+u.Name,
		)
	case u.Missing != "" && in.Kubelet.Path != "": // without a kubelet there is a finding
		r.Problem(
			u.Name+" cannot start: "+u.Missing,
			"",
			"install it in the image, or correct ExecStart= ("+in.systemctl("cat ")+u.Name+")",
		)
	}
}

// checkGate ends the checks of units.
func (in *Observations) checkGate(r *check.Recorder) {
	summary := in.Unit.Name + " is there and waits at the gate"
	switch {
	case in.Image != nil:
		summary = "prelet and the kubelet are enabled, and the kubelet waits at the gate"
	case !in.Systemd:
		r.Unread("the kubelet's unit cannot be checked", "systemd is not the init of this machine", "")
	}

	r.Fine(summary)
}

// checkRuntime reports the container runtime that the plan has found, and whether it answered.
func (in *Observations) checkRuntime(r *check.Recorder) {
	var runtime tape.RuntimeAns
	switch p := in.Plan; {
	case in.Image != nil:
		runtime.Endpoint = in.Image.Runtime
	case p != nil && p.Kubelet.Runtime != nil:
		runtime = *p.Kubelet.Runtime
	case p == nil || p.Diagnostics.HasErrors():
		r.Unread("the container runtime was not looked for", "the site has no plan", "")
		return
	}

	switch {
	case runtime.Endpoint == "":
		r.Warn(
			"no container runtime is known",
			"neither containerd's nor CRI-O's configuration was found",
			"install one in the image",
		)
	case in.Image != nil:
		r.Fine("the image configures " + runtime.Endpoint)
	case runtime.Version == "" && !in.Root:
		r.Unread("whether the container runtime answers at "+runtime.Endpoint, "", "run it as root")
	case runtime.Version == "":
		r.Warn(
			"the container runtime does not answer at "+runtime.Endpoint,
			"a kubelet does not start without it",
			"systemctl status containerd (or crio)",
		)
	default:
		driver := ""
		if known := cmp.Or(runtime.Reported, runtime.Driver); known != "" {
			driver = ", cgroup driver " + known
		}
		r.Fine(runtime.Endpoint + " answers" + driver)
	}
}

// checkMachine reports cgroups and swap. The plan checks them by the rules of the kubelet.
func (in *Observations) checkMachine(r *check.Recorder) {
	if !r.IsFine() || in.Plan == nil {
		return
	}
	k := in.Plan.Kubelet
	if k.Cgroup == 0 && k.Swap == nil {
		r.Unread("cgroups and swap cannot be read", "", "")
		return
	}
	swap := ""
	if k.Swap != nil {
		swap = map[bool]string{true: ", swap is on", false: ", no swap"}[*k.Swap]
	}

	r.Fine(fmt.Sprintf("cgroup v%d", k.Cgroup) + swap)
}

func (in *Observations) checkCredentials(r *check.Recorder) {
	for _, s := range in.Secrets {
		switch {
		case s.Err == nil:
			r.Report(check.OK, s.Name+" can be read", "", "")
		case !in.Root || !in.Systemd:
			r.Unread(s.Name, s.Err.Error(), "run it as root, where systemd is the init")
		case !s.Needed:
			r.Report(check.OK, s.Name+" is not needed", "the node has joined", "")
		default:
			r.Problem(
				s.Name+" cannot be read",
				s.Err.Error(),
				secret.CredentialHint(s.Name),
			)
		}
	}
}

// checkCluster reports which cluster answered, by the plan's tape. It sends nothing that would need the token.
func (in *Observations) checkCluster(r *check.Recorder) {
	p := in.Plan
	if p == nil || !r.IsFine() {
		return
	}

	t, hasAnswered := findTrust(p)
	switch {
	case hasAnswered:
		by := strings.ReplaceAll(t.VerifiedBy, "_", " ")
		servers := strings.Join(t.Servers, ", ")
		r.Fine("it answers, and is the one that the site trusts (by " + by + "): " + servers)
	case len(p.Access.Servers) == 0:
		r.Fine("the site uses none")
	default:
		r.Unread("it was not asked", "the site has no fetch-ca, or the run ended before it", "")
	}
}

// findTrust returns the verified identity of the cluster on a plan's tape.
func findTrust(p *evaluate.Plan) (t tape.TrustAns, ok bool) {
	if p == nil || p.Tape == nil {
		return t, false
	}
	for _, entry := range p.Tape.Entries() {
		isAnswer := entry.Kind == tape.KindTrust && entry.Answer.Fault == nil
		if isAnswer && json.Unmarshal(entry.Answer.Value, &t) == nil {
			return t, true
		}
	}

	return t, false
}

// checkDisk completes the checks before a commit. Only root can make it.
func (in *Observations) checkDisk(r *check.Recorder) {
	p := in.Plan
	hasChanges := p != nil && p.Changes != nil
	if !in.Root || len(in.Files) == 0 || !hasChanges {
		r.Unread(
			"whether the files of the site can be written",
			"there may be no room either",
			"run it as root, with a site that can be read",
		)
	}
	r.Fine("the files of the site can be written, and there is room")
}

func (in *Observations) checkIdentity(r *check.Recorder) {
	p := in.Plan
	if p == nil {
		return
	}
	serving := cmp.Or(p.Kubelet.DamagedServing, p.Kubelet.DamagedOwn)
	switch id := p.Kubelet.Identity; {
	case !r.IsFine():
	case p.Kubelet.Damaged != nil:
		r.Warn(
			"the kubelet's client certificate is damaged",
			p.Kubelet.Damaged.Why+", so the kubelet ends before it joins",
			p.Kubelet.Damaged.Next(
				"prelet run, with a bootstrap token: it sets the certificate aside, and the node joins again",
			),
		)
	case p.Changes == nil && serving != nil: // a plan names the certificate that the kubelet uses
		r.Warn(
			"a serving certificate is damaged",
			serving.Why+", and a kubelet that uses it ends",
			serving.Next("correct the site: then prelet run sets it aside"),
		)
	case p.Kubelet.Joined:
		r.Fine("the node has joined: " + p.Kubelet.JoinedWhy)
	case id != nil:
		r.Warn(
			"there is a kubelet.conf, and the node has not joined",
			p.Kubelet.JoinedWhy,
			"nothing, if a bootstrap token is available: the node joins again",
		)
	default:
		r.Fine("the node has not joined yet: " + p.Kubelet.JoinedWhy)
	}
}

// checkState checks the state that a run reads.
func (in *Observations) checkState(r *check.Recorder) {
	k := in.Kept
	if k.Err != nil {
		summary := "the state of earlier runs cannot be read"
		if in.Root {
			do := "prelet recover"
			if fault.CodeOf(k.Err) == fault.CannotWrite { // which no command changes: it has the next step
				do = ""
			}
			r.Problem(summary, k.Err.Error(), do)
		} else {
			r.Unread(summary, k.Err.Error(), "run it as root")
		}

		return
	}

	if k.Newer != nil {
		r.Warn(
			"a newer prelet made what is in place, so this one changes nothing",
			k.Newer.Error(),
			"prelet explain code/newer-prelet",
		)
		return
	}

	if a := k.Aside; a != nil {
		do := "prelet run"
		if a.Path != "" {
			do = "look at the disk; then, without the copy: rm -r " + nodefile.QuoteWord(a.Path)
		}
		r.Warn("the state of earlier runs could not be trusted", a.String(), do)
	}

	if k.Current == 0 {
		r.Fine("prelet has not run here yet")
	} else {
		r.Fine(fmt.Sprintf("generation %d is the current one", k.Current))
	}
}

func (in *Observations) checkDetectors(r *check.Recorder) {
	p := in.Plan
	if p == nil || p.Site == nil || len(p.Site.Detectors) == 0 {
		return
	}

	r.Fine(count(len(p.Site.Detectors), "detector") + " declared, nothing is wrong")
}
