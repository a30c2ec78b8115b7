package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
)

// checkBinary checks the kubelet, and the flags of kubeadm. The plan checks the flags of the site.
func (e *examination) checkBinary() {
	b := e.in.Binary
	oldest, newest := known.Range()
	minor, isVersion := known.Minor(b.Version)
	switch {
	case b.Path == "":
		e.problem("kubelet", "no kubelet was found",
			"it is looked for in /usr/bin, /usr/local/bin and /opt/bin", "install it in the image")
		return
	case b.Version == "":
		e.problem("kubelet", b.Path+" does not report its version",
			"a kubelet that does not report its version is not started", b.Path+" --version")
	case !isVersion || minor > newest:
		how := " is newer than what this prelet knows"
		if !isVersion {
			how = fmt.Sprintf(" is not a version that this prelet knows: it knows 1.%d to 1.%d", oldest, newest)
		}
		e.warn("kubelet", b.Version+how,
			fmt.Sprintf(
				"its flags are asked of the binary; fields and feature gates are checked as those of 1.%d",
				newest,
			),
			"use a prelet that knows it")
	case minor < oldest:
		e.warn("kubelet", b.Version+" is older than what this prelet knows",
			fmt.Sprintf("it is checked as 1.%d", oldest), "")
	}
	e.checkKubeadm()
	if e.isFine("kubelet") {
		e.ok("kubelet", fmt.Sprintf("%s, %s", b.Version, b.Path))
	}
}

// checkKubeadm checks that the file of kubeadm's flags can be parsed. The plan checks the flags in it.
func (e *examination) checkKubeadm() {
	if _, err := kubelet.ParseEnvFile(e.in.Kubeadm); err != nil {
		e.warn("kubelet", kubelet.KubeadmDeb().KubeadmFlagsFile+" cannot be read",
			err.Error(), "correct it, or remove it if it is not needed")
	}
}

// checkUnit checks the kubelet's unit as systemd loaded it.
func (e *examination) checkUnit() {
	u := e.in.Unit
	isMasked := u.Load == "masked" || strings.HasPrefix(u.File, "masked")
	switch {
	case !e.in.Systemd:
		e.unread("unit", "the kubelet's unit cannot be checked",
			"systemd is not the init of this machine", "")
		return
	case u.Err != nil:
		e.unread("unit", fmt.Sprintf("cannot get the state of %s from systemd", u.Name),
			u.Err.Error(), "run it as root, or look at systemctl status "+u.Name)
		return
	case isMasked:
		e.problem("unit", u.Name+" is masked",
			"a run ends with 52 before it writes anything", "systemctl unmask "+u.Name)
	case u.Load != "loaded":
		e.problem("unit", fmt.Sprintf("%s does not exist (%s)", u.Name, u.Load),
			"a run ends with 52 before it writes anything",
			"install the kubelet's package, or name the unit in stage \"restart\"")
	case !u.Gated:
		e.problem("unit", u.Name+" does not wait for prelet",
			"without the gate the kubelet may start on half of the files; "+
				"an EnvironmentFile= that is empty in a later drop-in removes it",
			"add to a drop-in of "+u.Name+" that sorts last:\n"+
				"    [Service]\n    EnvironmentFile=/run/prelet/kubelet.env")
	case u.File == "disabled":
		e.warn("unit", u.Name+" is disabled",
			"prelet does not start a kubelet that is disabled", "systemctl enable "+u.Name)
	}
	e.checkGate()
	if e.isFine("unit") {
		gate := "it opens with the next run"
		if g := e.in.Gate; g.Open {
			gate = fmt.Sprintf("it is open, on generation %d", g.Generation)
		}
		e.ok("unit", u.Name+" is there and waits at the gate; "+gate)
		e.recommendWatchdog()
	}
}

// watchdogSince is the minor version from which kubelets report to systemd's watchdog.
const watchdogSince = 32

// recommendWatchdog recommends a watchdog where a unit without findings has none and the kubelet reports to one. The
// plan warns of a wrong one.
func (e *examination) recommendWatchdog() {
	minor, isVersion := known.Minor(e.in.Binary.Version)
	if e.in.Unit.Watchdog > 0 || !isVersion || minor < watchdogSince {
		return
	}

	e.add(Finding{
		Check:   "unit",
		State:   OK,
		Summary: e.in.Unit.Name + " has no watchdog",
		Why:     "with one systemd restarts a kubelet that hangs; kubelets report to it from 1.32 on",
		Do:      "optional: WatchdogSec=30s below [Service] in a drop-in of " + e.in.Unit.Name,
	})
}

func (e *examination) checkGate() {
	g := e.in.Gate
	switch {
	case g.Err != nil:
		e.unread("unit", "the gate cannot be read", g.Err.Error(), "")
	case !g.Open && g.Why != "":
		e.warn("unit", "the gate is shut: the kubelet may not start now",
			g.Why, "prelet status")
	}
}

func (e *examination) checkRuntime() {
	r := e.in.Runtime
	driver := ""
	if r.Driver != "" {
		driver = ", cgroup driver " + r.Driver
	}
	switch {
	case r.Err == nil && r.Endpoint != "" && !e.isFine("runtime"): // checkImages has more
	case r.Endpoint == "" && (e.in.Plan == nil || e.in.Plan.Facts == nil):
		e.unread("runtime", "the container runtime was not looked for",
			"the site has no detect-hw, or cannot be read", "")
	case r.Endpoint == "":
		e.warn("runtime", "no container runtime is known",
			"neither containerd's nor CRI-O's configuration was found", "install one in the image")
	case r.Err != nil:
		e.warn("runtime", fmt.Sprintf("the container runtime does not answer at %s", r.Endpoint),
			r.Err.Error(), "systemctl status containerd (or crio)")
	default:
		e.ok("runtime", fmt.Sprintf("%s answers%s", r.Endpoint, driver))
	}
}

// maxShownImages is the highest number of images in a finding.
const maxShownImages = 5

// checkImages reports images of the runtime that pods get only from their registry, by the reason.
func (e *examination) checkImages() {
	images := e.in.Images
	if images.Policy == "" {
		return
	}
	if images.Err != nil {
		e.unread("runtime", "whether the kubelet lets pods use preloaded images", images.Err.Error(),
			"run it as root, while the runtime runs")
		return
	}

	remedy := "name the images in the block preloaded_images of the write stage"
	if images.Policy == "AlwaysVerify" { // a list would be refused
		remedy = "choose another policy in the block preloaded_images of the write stage"
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
		e.warn("runtime", "pods without pull credentials get these images only from their registry: "+shown,
			why+", so offline, or with imagePullPolicy Never, such a pod does not start although the image is there",
			"remove a record that a golden image has brought along (while the kubelet is stopped), or "+remedy)
	}
}

// checkMachine reports cgroups and swap. The plan checks them by the rules of the kubelet.
func (e *examination) checkMachine() {
	if !e.isFine("machine") || e.in.Plan == nil {
		return
	}
	k := e.in.Plan.Kubelet
	if k.Cgroup == 0 && k.Swap == nil {
		e.unread("machine", "cgroups and swap cannot be read", "", "")
		return
	}
	swap := ""
	if k.Swap != nil {
		swap = map[bool]string{true: ", swap is on", false: ", no swap"}[*k.Swap]
	}
	e.ok("machine", fmt.Sprintf("cgroup v%d", k.Cgroup)+swap)
}

func (e *examination) checkClock() {
	if err := e.in.Clock; err != nil {
		e.warn("clock", "the clock is not set",
			"certificates are checked against it: a run waits for it, and fails with 21 if it stays wrong "+
				"("+err.Error()+")",
			"set up systemd-timesyncd or chrony, and look at timedatectl")
		return
	}
	e.ok("clock", "it is set")
}

func (e *examination) checkCredentials() {
	for _, s := range e.in.Secrets {
		switch {
		case s.Err == nil:
			e.ok("credentials", s.Name+" can be read")
		case !e.in.Root:
			e.unread("credentials", s.Name, s.Err.Error(), "run it as root")
		case !s.Needed:
			e.add(Finding{
				Check:   "credentials",
				State:   OK,
				Summary: s.Name + " is not needed",
				Why:     "the node has joined",
			})
		default:
			e.problem("credentials", s.Name+" cannot be read",
				s.Err.Error(),
				value.CredentialHint(s.Name))
		}
	}
}

// checkCluster reports which cluster answered, by the plan's tape. It sends nothing that would need the token.
func (e *examination) checkCluster() {
	p := e.in.Plan
	if p == nil || !e.isFine("cluster") {
		return
	}

	t, hasAnswered := findTrust(p)
	switch {
	case hasAnswered:
		by := strings.ReplaceAll(t.VerifiedBy, "_", " ")
		servers := strings.Join(t.Servers, ", ")
		e.ok("cluster", "it answers, and is the one that the site trusts (by "+by+"): "+servers)
	case len(p.Access.Servers) == 0:
		e.ok("cluster", "the site uses none")
	default:
		e.unread("cluster", "it was not asked",
			"the site has no fetch-ca, or the run ended before it", "")
	}
}

// findTrust returns the verified identity of the cluster on a plan's tape.
func findTrust(p *boot.Plan) (t world.TrustAns, ok bool) {
	if p.Tape == nil {
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
func (e *examination) checkDisk() {
	for _, p := range e.in.Places {
		e.checkPlace(p)
	}
	if len(e.in.Places) == 0 || !e.isFine("disk") {
		return
	}

	folders := count(len(e.in.Places), "folder")
	if e.in.Root {
		e.ok("disk", folders+" can be written to, and there is room")
		return
	}
	e.unread("disk", "whether "+folders+" can be written to",
		"there is room", "run it as root")
}

func (e *examination) checkPlace(p Place) {
	switch {
	case p.Err != nil && !e.in.Root:
		e.unread("disk", p.Path+" cannot be read", p.Err.Error(), "run it as root")
	case p.Err != nil:
		e.problem("disk", fmt.Sprintf("%s, for %s", p.Path, p.For),
			p.Err.Error(), "make it a folder that root may write to")
	case p.ReadOnly:
		e.problem("disk", fmt.Sprintf("%s is on a read-only file system, for %s", p.Path, p.For),
			"a run ends with 40 and changes nothing",
			"mount it read-write, or let the site write elsewhere")
	case p.FreeBytes < minBytes:
		e.problem("disk", fmt.Sprintf("%s has %d MiB left", p.Path, p.FreeBytes>>20),
			"a generation is written next to the files that it replaces", "make room")
	case !p.NoFiles && p.FreeFiles < minFiles:
		e.problem("disk", fmt.Sprintf("%s has %d inodes left", p.Path, p.FreeFiles),
			"a generation is many small files", "make room")
	case e.in.Root && !p.Writable:
		e.problem("disk", fmt.Sprintf("%s cannot be written to, for %s", p.Path, p.For),
			"a run ends with 40 and changes nothing",
			"look at mount options, attributes (lsattr) and security modules")
	}
}

func (e *examination) checkIdentity() {
	p := e.in.Plan
	if p == nil {
		return
	}
	if p.Facts != nil && p.Facts.MachineID == nil {
		e.warn("identity", "the machine has no id",
			"prelet recognises a copied disk by it",
			"systemd-machine-id-setup; an image has an empty /etc/machine-id, so that each boot makes its own")
	}
	switch id := p.Kubelet.Identity; {
	case !e.isFine("identity"):
	case p.Previous != nil:
		e.warn("identity", "kubelet.conf is another machine's",
			p.Previous.Why,
			"nothing: the next run moves it into the generation, and the node joins under its own name")
	case p.Kubelet.Joined:
		e.ok("identity", fmt.Sprintf("the node has joined: %s", p.Kubelet.JoinedWhy))
	case id != nil:
		e.warn("identity", "there is a kubelet.conf, and the node has not joined",
			p.Kubelet.JoinedWhy, "nothing, if a bootstrap token is available: the node joins again")
	default:
		e.ok("identity", fmt.Sprintf("the node has not joined yet: %s", p.Kubelet.JoinedWhy))
	}
}

// checkServing reports a kubelet whose API has no certificate.
func (e *examination) checkServing() {
	err := e.in.Serving
	var unknown interface{ Unknown() bool }
	switch {
	case err == nil:
	case errors.As(err, &unknown) && unknown.Unknown():
		e.unread("identity", "whether the kubelet gets a serving certificate", err.Error(), "")
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
}

// checkState checks what earlier runs left: a journal, damaged generations, holds and the lock.
func (e *examination) checkState() {
	k := e.in.Kept
	if k.Err != nil {
		summary := "the state of earlier runs cannot be read"
		if e.in.Root {
			e.problem("state", summary, k.Err.Error(), "prelet recover")
		} else {
			e.unread("state", summary, k.Err.Error(), "run it as root")
		}
		return
	}

	if k.Newer != nil {
		e.warn("state", "a newer prelet made what is in place, so this one changes nothing", k.Newer.Error(),
			"prelet explain code/newer-prelet")
		return
	}

	e.checkJournal()
	e.checkDamage()
	e.checkHolds()
	if !e.isFine("state") {
		return
	}
	switch generation := fmt.Sprintf("generation %d is in place, ", k.Current); {
	case k.Current == 0:
		e.ok("state", "prelet has not run here yet")
	case k.Adopted:
		e.ok("state", generation+"adopted: its files were as planned already")
	default:
		e.ok("state", generation+"nothing is pending")
	}
}

func (e *examination) checkJournal() {
	j := e.in.Kept.Journal
	switch {
	case j == nil:
	case j.Phase == generation.PhaseVerify:
		e.warn("state", fmt.Sprintf("generation %d awaits its verdict", j.Gen),
			count(j.Tries, "boot")+" so far tried to find it",
			"prelet verify, when the kubelet runs")
	default:
		e.warn("state", fmt.Sprintf("generation %d is half in place (%s)", j.Gen, j.Phase),
			"a run was interrupted", "prelet recover, or the next run")
	}
}

func (e *examination) checkDamage() {
	for _, r := range e.in.Kept.Damaged {
		do := "nothing: a rollback uses an older good one"
		if r.Gen == e.in.Kept.Current {
			do = "prelet run makes a generation of what is in place"
		}
		e.warn("state", fmt.Sprintf("generation %d is damaged", r.Gen),
			generation.DescribeDamage(r.Why), do)
	}
}

// checkHolds reports what keeps plans from being applied.
func (e *examination) checkHolds() {
	k := e.in.Kept
	if k.Pinned != "" {
		e.warn("state", "every plan is held", k.Pinned, "prelet rollback --release")
	}
	for _, plan := range slices.Sorted(maps.Keys(k.Held)) {
		e.warn("state", fmt.Sprintf("plan %.12s is held", plan),
			k.Held[plan], "correct the site, or prelet run --retry")
	}
	if k.Lock != "" {
		e.warn("state", "another process holds the lock: "+k.Lock,
			"a run waits two minutes for it, then ends with 75",
			"wait for it, or see what it waits for")
	}
}

func (e *examination) checkDetectors() {
	p := e.in.Plan
	if p == nil || p.Site == nil || len(p.Site.Detectors) == 0 || !e.isFine("detectors") {
		return
	}
	e.ok("detectors", count(len(p.Site.Detectors), "detector")+" declared, nothing is wrong")
}
