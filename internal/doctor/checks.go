package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/activation"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
)

// lookedFor is where the kubelet is looked for.
const lookedFor = "it is looked for where its unit starts it, and in /usr/bin, /usr/local/bin and /opt/bin"

// checkKubelet checks the kubelet, and the flags of kubeadm. The plan checks the flags of the site.
func (e *examination) checkKubelet() string {
	k := e.in.Kubelet
	oldest, newest := known.Range()
	minor, isVersion := known.Minor(k.Version)
	switch {
	case k.Path == "":
		e.problem("no kubelet was found", lookedFor, "install it in the image")
		return ""
	case k.Version == "" && e.in.Image != nil:
		e.unread("the version of "+k.Path+" is not known",
			"a program below another root is not started", "run prelet inside of the image, or name --kubelet-version")
	case k.Version == "":
		e.problem(k.Path+" does not report its version",
			"a kubelet that does not report its version is not started", k.Path+" --version")
	case e.in.Image != nil && !isSameMinor(e.in.Image.Reported, k.Version):
		e.problem(k.Path+" is "+e.in.Image.Reported+", and --kubelet-version is "+k.Version,
			"the site would be judged for another kubelet", "leave --kubelet-version out")
	case !isVersion || minor > newest:
		how := " is newer than what this prelet knows"
		if !isVersion {
			how = fmt.Sprintf(" is not a version that this prelet knows: it knows 1.%d to 1.%d", oldest, newest)
		}
		e.warn(k.Version+how,
			fmt.Sprintf(
				"its flags are asked of the binary; fields and feature gates are checked as those of 1.%d",
				newest,
			),
			"use a prelet that knows it")
	case minor < oldest:
		e.warn(k.Version+" is older than what this prelet knows",
			fmt.Sprintf("it is checked as 1.%d", oldest), "")
	}
	e.checkKubeadm()

	return k.Version + ", " + k.Path
}

// isSameMinor reports whether two versions are of one minor version, or one of them is not a version.
func isSameMinor(a, b string) bool {
	minorA, isA := known.Minor(a)
	minorB, isB := known.Minor(b)

	return !isA || !isB || minorA == minorB
}

// checkKubeadm checks that the file of kubeadm's flags can be parsed. The plan checks the flags in it.
func (e *examination) checkKubeadm() {
	if _, err := kubelet.ParseEnvFile(e.in.Kubeadm); err != nil {
		e.warn(kubelet.KubeadmDeb().KubeadmFlagsFile+" cannot be read",
			err.Error(), "correct it, or remove it if it is not needed")
	}
}

// checkUnits checks the kubelet's unit as systemd loaded it; in an image that unit and prelet's own. A run judges it in
// the same way, before it writes.
func (e *examination) checkUnits() string {
	switch {
	case e.in.Image != nil:
		for _, u := range e.in.Image.listUnits() {
			e.checkUnit(u)
		}

		return "prelet and the kubelet are enabled, and the kubelet waits at the gate"
	case !e.in.Systemd:
		e.unread("the kubelet's unit cannot be checked",
			"systemd is not the init of this machine", "")
		return ""
	}
	e.checkUnit(e.in.Unit)
	e.checkGate()

	gate := "it opens with the next run"
	if g := e.in.Gate; g.Open {
		gate = fmt.Sprintf("it is open, on generation %d", g.Generation)
	}

	return e.in.Unit.Name + " is there and waits at the gate; " + gate
}

func (e *examination) checkUnit(u Unit) {
	const effect = "a run ends with 52 before it writes anything"

	if strings.HasPrefix(u.File, "masked") { // systemd has not read its files again
		u.Load = "masked"
	}

	switch f := activation.CheckUnit(u.Name, u.Unit, e.in.Gate.Path); {
	case u.Err != nil && e.in.Image != nil:
		e.unread(u.Name+" cannot be read", nodefile.Reason(u.Err), stepFor(u.Err))
	case u.Err != nil:
		e.unread(fmt.Sprintf("cannot get the state of %s from systemd", u.Name),
			u.Err.Error(), "run it as root, or look at systemctl status "+u.Name)
	case u.Load == "not-found":
		e.problem(u.Name+" does not exist", effect, f.Next)
	case f != nil:
		e.problem(f.Summary, effect, f.Next)
	case u.File == "disabled":
		e.warn(u.Name+" is not enabled",
			"it does not start at boot: prelet starts no kubelet that is disabled", "systemctl enable "+u.Name)
	}
}

// recommendWatchdog recommends a watchdog where a unit without findings has none and the kubelet reports to one. The
// plan warns of a wrong one.
func (e *examination) recommendWatchdog() string {
	minor, isVersion := known.Minor(e.in.Kubelet.Version)
	if e.isFine() && e.in.Unit.Watchdog == 0 && isVersion && minor >= boot.WatchdogSince {
		e.report(OK, e.in.Unit.Name+" has no watchdog",
			"with one systemd restarts a kubelet that hangs; kubelets report to it from 1.32 on",
			"optional: WatchdogSec=30s below [Service] in a drop-in of "+e.in.Unit.Name)
	}

	return ""
}

func (e *examination) checkGate() {
	g := e.in.Gate
	switch {
	case g.Err != nil:
		e.unread("the gate cannot be read", g.Err.Error(), "")
	case !g.Open && g.Why != "":
		e.warn("the gate is shut: the kubelet may not start now",
			g.Why, "prelet status")
	}
}

func (e *examination) checkRuntime() string {
	r := e.in.Runtime
	driver := ""
	if r.Driver != "" {
		driver = ", cgroup driver " + r.Driver
	}
	switch {
	case r.Endpoint == "" && e.in.Image == nil && (e.in.Plan == nil || e.in.Plan.Facts == nil):
		e.unread("the container runtime was not looked for",
			"the site has no detect-hw, or cannot be read", "")
	case r.Endpoint == "":
		e.warn("no container runtime is known",
			"neither containerd's nor CRI-O's configuration was found", "install one in the image")
	case e.in.Image != nil:
		return "the image configures " + r.Endpoint
	case r.Err != nil:
		e.warn(fmt.Sprintf("the container runtime does not answer at %s", r.Endpoint),
			r.Err.Error(), "systemctl status containerd (or crio)")
	default:
		return r.Endpoint + " answers" + driver
	}

	return ""
}

// maxShownImages is the highest number of images in a finding.
const maxShownImages = 5

// checkImages reports images of the runtime that pods get only from their registry, by the reason.
func (e *examination) checkImages() string {
	images := e.in.Images
	if images.Policy == "" {
		return ""
	}
	if images.Err != nil {
		e.unread("whether the kubelet lets pods use preloaded images", images.Err.Error(),
			"run it as root, while the runtime runs")
		return ""
	}

	remedy := "name the images in preloadedImagesVerificationAllowlist, in patch of kubelet_config"
	if images.Policy == "AlwaysVerify" { // a list would be refused
		remedy = "choose another imagePullCredentialsVerificationPolicy in patch of kubelet_config"
	}
	byReason := map[string][]string{}
	for _, image := range images.Refused {
		byReason[image.Why] = append(byReason[image.Why], image.Name)
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		names := byReason[why]
		shown := strings.Join(names[:min(len(names), maxShownImages)], ", ")
		if len(names) > maxShownImages {
			shown += fmt.Sprintf(" and %d more", len(names)-maxShownImages)
		}
		e.warn("pods without pull credentials get these images only from their registry: "+shown,
			why+", so offline, or with imagePullPolicy Never, such a pod does not start although the image is there",
			"remove a record that a golden image has brought along (while the kubelet is stopped), or "+remedy)
	}

	return ""
}

// checkMachine reports cgroups and swap. The plan checks them by the rules of the kubelet.
func (e *examination) checkMachine() string {
	if !e.isFine() || e.in.Plan == nil {
		return ""
	}
	k := e.in.Plan.Kubelet
	if k.Cgroup == 0 && k.Swap == nil {
		e.unread("cgroups and swap cannot be read", "", "")
		return ""
	}
	swap := ""
	if k.Swap != nil {
		swap = map[bool]string{true: ", swap is on", false: ", no swap"}[*k.Swap]
	}

	return fmt.Sprintf("cgroup v%d", k.Cgroup) + swap
}

func (e *examination) checkClock() string {
	if err := e.in.Clock; err != nil {
		e.warn("the clock is not set",
			"certificates are checked against it: a run waits for it, and fails with 21 if it stays wrong "+
				"("+err.Error()+")",
			"set up systemd-timesyncd or chrony, and look at timedatectl")
	}

	return "it is set"
}

func (e *examination) checkCredentials() string {
	for _, s := range e.in.Secrets {
		switch {
		case s.Err == nil:
			e.report(OK, s.Name+" can be read", "", "")
		case !e.in.Root || !e.in.Systemd:
			e.unread(s.Name, s.Err.Error(), "run it as root, where systemd is the init")
		case !s.Needed:
			e.report(OK, s.Name+" is not needed", "the node has joined", "")
		default:
			e.problem(s.Name+" cannot be read",
				s.Err.Error(),
				value.CredentialHint(s.Name))
		}
	}

	return ""
}

// checkCluster reports which cluster answered, by the plan's tape. It sends nothing that would need the token.
func (e *examination) checkCluster() string {
	p := e.in.Plan
	if p == nil || !e.isFine() {
		return ""
	}

	t, hasAnswered := FindTrust(p)
	switch {
	case hasAnswered:
		by := strings.ReplaceAll(t.VerifiedBy, "_", " ")
		servers := strings.Join(t.Servers, ", ")
		return "it answers, and is the one that the site trusts (by " + by + "): " + servers
	case len(p.Access.Servers) == 0:
		return "the site uses none"
	}
	e.unread("it was not asked", "the site has no fetch-ca, or the run ended before it", "")

	return ""
}

// FindTrust returns the verified identity of the cluster on a plan's tape.
func FindTrust(p *boot.Plan) (t world.TrustAns, ok bool) {
	if p == nil || p.Tape == nil {
		return t, false
	}
	for _, entry := range p.Tape.Entries() {
		isAnswer := entry.Kind == world.KindTrust && entry.Answer.Fault == nil
		if isAnswer && json.Unmarshal(entry.Answer.Value, &t) == nil {
			return t, true
		}
	}

	return t, false
}

// The space that a generation needs at most.
const (
	minBytes = 32 << 20
	minFiles = 200
)

// checkDisk checks the folders that prelet writes to.
func (e *examination) checkDisk() string {
	for _, p := range e.in.Places {
		e.checkPlace(p)
	}
	if len(e.in.Places) == 0 || !e.isFine() {
		return ""
	}

	folders := count(len(e.in.Places), "folder")
	if !e.in.Root {
		e.unread("whether "+folders+" can be written to", "there is room", "run it as root")
	}

	return folders + " can be written to, and there is room"
}

func (e *examination) checkPlace(p Place) {
	switch {
	case p.Err != nil && !e.in.Root:
		e.unread(p.Path+" cannot be read", p.Err.Error(), "run it as root")
	case p.Err != nil:
		e.problem(fmt.Sprintf("%s, for %s", p.Path, p.For),
			p.Err.Error(), "make it a folder that root may write to")
	case p.ReadOnly:
		e.problem(fmt.Sprintf("%s is on a read-only file system, for %s", p.Path, p.For),
			"a run ends with 40 and changes nothing",
			"mount it read-write, or let the site write elsewhere")
	case p.FreeBytes < minBytes:
		e.problem(fmt.Sprintf("%s has %d MiB left", p.Path, p.FreeBytes>>20),
			"a generation is written next to the files that it replaces", "make room")
	case !p.NoFiles && p.FreeFiles < minFiles:
		e.problem(fmt.Sprintf("%s has %d inodes left", p.Path, p.FreeFiles),
			"a generation is many small files", "make room")
	case e.in.Root && !p.Writable:
		e.problem(fmt.Sprintf("%s cannot be written to, for %s", p.Path, p.For),
			"a run ends with 40 and changes nothing",
			"look at mount options, attributes (lsattr) and security modules")
	}
}

func (e *examination) checkIdentity() string {
	p := e.in.Plan
	if p == nil {
		return ""
	}
	if p.Facts != nil && p.Facts.MachineID == nil {
		e.warn("the machine has no id",
			"prelet recognises a copied disk by it",
			"systemd-machine-id-setup; an image has an empty /etc/machine-id, so that each boot makes its own")
	}
	switch id := p.Kubelet.Identity; {
	case !e.isFine():
	case p.Previous != nil:
		e.warn("kubelet.conf is another machine's",
			p.Previous.Why,
			"nothing: the next run moves it into the generation, and the node joins under its own name")
	case p.Kubelet.Joined:
		return "the node has joined: " + p.Kubelet.JoinedWhy
	case id != nil:
		e.warn("there is a kubelet.conf, and the node has not joined",
			p.Kubelet.JoinedWhy, "nothing, if a bootstrap token is available: the node joins again")
	default:
		return "the node has not joined yet: " + p.Kubelet.JoinedWhy
	}

	return ""
}

// checkServing reports a kubelet whose API has no certificate.
func (e *examination) checkServing() string {
	err := e.in.Serving
	var unknown interface{ Unknown() bool }
	switch {
	case err == nil:
	case errors.As(err, &unknown) && unknown.Unknown():
		e.unread("whether the kubelet gets a serving certificate", err.Error(), "")
	default:
		e.add(Finding{
			Check:   "identity",
			State:   Warning,
			Summary: "the kubelet has no certificate for its API",
			Why:     err.Error(),
			Do:      "prelet explain code/" + string(fault.ServingCertificate),
			Code:    fault.ServingCertificate,
		})
	}

	return ""
}

// checkState checks what earlier runs left: a journal, damaged generations, holds and the lock.
func (e *examination) checkState() string {
	k := e.in.Kept
	if k.Err != nil {
		summary := "the state of earlier runs cannot be read"
		if e.in.Root {
			e.problem(summary, k.Err.Error(), "prelet recover")
		} else {
			e.unread(summary, k.Err.Error(), "run it as root")
		}

		return ""
	}

	if k.Newer != nil {
		e.warn("a newer prelet made what is in place, so this one changes nothing", k.Newer.Error(),
			"prelet explain code/newer-prelet")
		return ""
	}

	e.checkJournal()
	e.checkDamage()
	e.checkHolds()

	switch generation := fmt.Sprintf("generation %d is in place, ", k.Current); {
	case k.Current == 0:
		return "prelet has not run here yet"
	case k.Adopted:
		return generation + "adopted: its files were as planned already"
	default:
		return generation + "nothing is pending"
	}
}

func (e *examination) checkJournal() {
	j := e.in.Kept.Journal
	switch {
	case j == nil:
	case j.Phase == generation.PhaseVerify:
		e.warn(fmt.Sprintf("generation %d awaits its verdict", j.Gen),
			count(j.Tries, "boot")+" so far tried to find it",
			"prelet verify, when the kubelet runs")
	default:
		e.warn(fmt.Sprintf("generation %d is half in place (%s)", j.Gen, j.Phase),
			"a run was interrupted", "prelet recover, or the next run")
	}
}

func (e *examination) checkDamage() {
	for _, r := range e.in.Kept.Damaged {
		do := "nothing: a rollback uses an older good one"
		if r.Gen == e.in.Kept.Current {
			do = "prelet run makes a generation of what is in place"
		}
		e.warn(fmt.Sprintf("generation %d is damaged", r.Gen),
			generation.DescribeDamage(r.Why), do)
	}
}

// checkHolds reports what keeps plans from being applied.
func (e *examination) checkHolds() {
	k := e.in.Kept
	if k.Pinned != "" {
		e.warn("every plan is held", k.Pinned, "prelet rollback --release")
	}
	for _, plan := range slices.Sorted(maps.Keys(k.Held)) {
		e.warn(fmt.Sprintf("plan %.12s is held", plan),
			k.Held[plan], "correct the site, or prelet run --retry")
	}
	if k.Lock != "" {
		e.warn("another process holds the lock: "+k.Lock,
			"a run waits two minutes for it, then ends with 75",
			"wait for it, or see what it waits for")
	}
}

func (e *examination) checkDetectors() string {
	p := e.in.Plan
	if p == nil || p.Site == nil || len(p.Site.Detectors) == 0 {
		return ""
	}

	return count(len(p.Site.Detectors), "detector") + " declared, nothing is wrong"
}
