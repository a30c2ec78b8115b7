package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/commit/generation"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/known"
	"github.com/prelet/prelet/internal/world"
)

// binary looks at the kubelet, and at the flags that kubeadm left for it: those of the site are judged with the plan.
func (e *examination) binary() {
	b := e.in.Binary
	oldest, newest := known.Range()
	minor, isVersion := known.Minor(b.Version)
	switch {
	case b.Path == "":
		e.say("kubelet", Problem, "install it in the image", "it is looked for in /usr/bin, /usr/local/bin and /opt/bin", "there is no kubelet")
		return
	case b.Version == "":
		e.say("kubelet", Problem, b.Path+" --version", "nothing starts that cannot tell its version", "%s does not tell its version", b.Path)
	case isVersion && minor > newest:
		e.say("kubelet", Warning, "use a prelet that knows it", "its flags are asked of the binary; fields and feature gates are judged as those of 1."+fmt.Sprint(newest), "%s is newer than what this prelet knows", b.Version)
	case isVersion && minor < oldest:
		e.say("kubelet", Warning, "", "it is judged as 1."+fmt.Sprint(oldest), "%s is older than what this prelet knows", b.Version)
	}
	e.kubeadm()
	if e.none("kubelet") {
		e.say("kubelet", OK, "", "", "%s, %s", b.Version, b.Path)
	}
}

// kubeadm judges whether the file of kubeadm's flags can be read. The plan judges the flags in it.
func (e *examination) kubeadm() {
	if _, err := kubelet.ParseEnvFile(e.in.Kubeadm); err != nil {
		e.say("kubelet", Warning, "correct it, or remove it if it is not needed", err.Error(), "%s cannot be read",
			kubelet.KubeadmDeb().KubeadmFlagsFile)
	}
}

func (e *examination) unit() {
	u, g := e.in.Unit, e.in.Gate
	switch {
	case !e.in.Systemd:
		e.say("unit", Unread, "", "systemd is not the init of this machine", "whether the kubelet's unit is right cannot be told")
		return
	case u.Err != nil:
		e.say("unit", Unread, "run it as root, or look at systemctl status "+u.Name, u.Err.Error(), "systemd cannot be asked about %s", u.Name)
		return
	case u.Load == "masked" || u.File == "masked" || u.File == "masked-runtime":
		e.say("unit", Problem, "systemctl unmask "+u.Name, "a run ends with 52 before it writes anything", "%s is masked", u.Name)
	case u.Load != "loaded":
		e.say("unit", Problem, "install the kubelet's package, or name the unit in stage \"restart\"", "a run ends with 52 before it writes anything", "%s is not there (%s)", u.Name, u.Load)
	case !u.Gated:
		e.say("unit", Problem, "add to a drop-in of "+u.Name+" that sorts last:\n    [Service]\n    EnvironmentFile=/run/prelet/kubelet.env",
			"without the gate the kubelet may start on half of the files; an EnvironmentFile= that is empty in a later drop-in takes it away", "%s does not wait for prelet", u.Name)
	case u.File == "disabled":
		e.say("unit", Warning, "systemctl enable "+u.Name, "prelet starts no kubelet that nobody asked for", "%s is disabled", u.Name)
	}
	switch {
	case g.Err != nil:
		e.say("unit", Unread, "", g.Err.Error(), "the gate cannot be looked at")
	case !g.Open && g.Why != "":
		e.say("unit", Warning, "prelet status", g.Why, "the gate is shut: the kubelet may not start now")
	}
	if e.none("unit") {
		gate := "it opens with the next run"
		if g.Open {
			gate = fmt.Sprintf("it is open, on generation %d", g.Generation)
		}
		e.say("unit", OK, "", "", "%s is there and waits at the gate; %s", u.Name, gate)
	}
}

func (e *examination) runtime() {
	r := e.in.Runtime
	driver := ""
	if r.Driver != "" {
		driver = ", cgroup driver " + r.Driver
	}
	switch {
	case r.Endpoint == "" && (e.in.Plan == nil || e.in.Plan.Facts == nil):
		e.say("runtime", Unread, "", "the site has no detect-hw, or cannot be read", "the container runtime was not looked for")
	case r.Endpoint == "":
		e.say("runtime", Warning, "install one in the image", "neither containerd's nor CRI-O's configuration was found", "no container runtime is known")
	case r.Err != nil:
		e.say("runtime", Warning, "systemctl status containerd (or crio)", r.Err.Error(), "the container runtime does not answer at %s", r.Endpoint)
	default:
		e.say("runtime", OK, "", "", "%s answers%s", r.Endpoint, driver)
	}
}

// machine has what the plan found by the kubelet's rules; here is only that all is well, and what there is.
func (e *examination) machine() {
	if !e.none("machine") || e.in.Plan == nil {
		return
	}
	k := e.in.Plan.Kubelet
	if k.Cgroup == 0 && k.Swap == nil {
		e.say("machine", Unread, "", "", "cgroups and swap cannot be looked at")
		return
	}
	what := fmt.Sprintf("cgroup v%d", k.Cgroup)
	if k.Swap != nil {
		what += map[bool]string{true: ", swap is on", false: ", no swap"}[*k.Swap]
	}
	e.say("machine", OK, "", "", "%s", what)
}

func (e *examination) clock() {
	if err := e.in.Clock; err != nil {
		e.say("clock", Warning, "set up systemd-timesyncd or chrony, and look at timedatectl", "certificates are judged by it: a run waits for it, and fails with 21 where it stays wrong ("+err.Error()+")", "nobody has set the clock")
		return
	}
	e.say("clock", OK, "", "", "it is set")
}

func (e *examination) credentials() {
	for _, s := range e.in.Secrets {
		switch {
		case s.Err == nil:
			e.say("credentials", OK, "", "", "%s can be read", s.Name)
		case !e.in.Root:
			e.say("credentials", Unread, "run it as root", s.Err.Error(), "%s", s.Name)
		case !s.Needed:
			e.say("credentials", OK, "", "the node has joined", "%s is not needed", s.Name)
		default:
			e.say("credentials", Problem, fmt.Sprintf("LoadCredential=%s:/PATH or ImportCredential=%s in a drop-in of prelet.service; a file of that name in /etc/credstore or /etc/credstore.encrypted", s.Name, s.Name), s.Err.Error(), "%s cannot be read", s.Name)
		}
	}
}

// cluster says who it is, by the answer on the plan's tape: nothing is sent that would need the token.
func (e *examination) cluster() {
	p := e.in.Plan
	if p == nil || !e.none("cluster") {
		return
	}
	if p.Tape != nil {
		for _, entry := range p.Tape.Entries() {
			if entry.Kind != world.KindTrust || entry.Answer.Fault != nil {
				continue
			}
			t, err := trusted(entry.Answer)
			if err == nil {
				e.say("cluster", OK, "", "", "it answers, and is the one that the site trusts (by %s): %s", strings.ReplaceAll(t.VerifiedBy, "_", " "), strings.Join(t.Servers, ", "))
				return
			}
		}
	}
	if len(p.Access.Servers) == 0 {
		e.say("cluster", OK, "", "", "the site asks none")
		return
	}
	e.say("cluster", Unread, "", "the site has no fetch-ca, or did not come to it", "it was not asked")
}

// trusted decodes an answer about the cluster.
func trusted(a world.Answer) (t world.TrustAns, err error) {
	return t, json.Unmarshal(a.Value, &t)
}

// least is what a generation takes, generously.
const (
	leastBytes = 32 << 20
	leastFiles = 200
)

func (e *examination) disk() {
	for _, p := range e.in.Places {
		switch {
		case p.Err != nil && !e.in.Root:
			e.say("disk", Unread, "run it as root", p.Err.Error(), "%s cannot be looked at", p.Path)
		case p.Err != nil:
			e.say("disk", Problem, "make it a folder that root may write to", p.Err.Error(), "%s, for %s", p.Path, p.For)
		case p.ReadOnly:
			e.say("disk", Problem, "mount it read-write, or let the site write elsewhere", "a run ends with 40 and changes nothing", "%s is on a read-only file system, for %s", p.Path, p.For)
		case p.FreeBytes < leastBytes:
			e.say("disk", Problem, "make room", "a generation is staged beside what it replaces", "%s has %d MiB left", p.Path, p.FreeBytes>>20)
		case !p.NoFiles && p.FreeFiles < leastFiles:
			e.say("disk", Problem, "make room", "a generation is many small files", "%s has %d inodes left", p.Path, p.FreeFiles)
		case e.in.Root && !p.Writable:
			e.say("disk", Problem, "look at mount options, attributes (lsattr) and security modules", "a run ends with 40 and changes nothing", "%s cannot be written to, for %s", p.Path, p.For)
		}
	}
	if e.none("disk") && len(e.in.Places) > 0 {
		if e.in.Root {
			e.say("disk", OK, "", "", "%s can be written to, and there is room", count(len(e.in.Places), "folder"))
		} else {
			e.say("disk", Unread, "run it as root", "there is room", "whether %s can be written to", count(len(e.in.Places), "folder"))
		}
	}
}

func (e *examination) identity() {
	p := e.in.Plan
	if p == nil {
		return
	}
	if p.Facts != nil && p.Facts.MachineID == nil {
		e.say("identity", Warning, "systemd-machine-id-setup; an image has an empty /etc/machine-id, so that each boot makes its own", "a copied disk is known by it", "the machine has no id")
	}
	switch id := p.Kubelet.Identity; {
	case !e.none("identity"):
	case p.Aside != nil:
		e.say("identity", Warning, "nothing: the next run sets it aside, and the node joins under its own name", p.Aside.Why, "kubelet.conf is another machine's")
	case p.Kubelet.Joined:
		e.say("identity", OK, "", "", "the node has joined: %s", p.Kubelet.JoinedWhy)
	case id != nil:
		e.say("identity", Warning, "nothing, if a bootstrap token is at hand: the node joins anew", p.Kubelet.JoinedWhy, "there is a kubelet.conf, and the node has not joined")
	default:
		e.say("identity", OK, "", "", "the node has not joined yet: %s", p.Kubelet.JoinedWhy)
	}
}

func (e *examination) state() {
	k := e.in.Kept
	if k.Err != nil {
		s, do := Problem, "prelet recover"
		if !e.in.Root {
			s, do = Unread, "run it as root"
		}
		e.say("state", s, do, k.Err.Error(), "what earlier runs have left cannot be read")
		return
	}
	if j := k.Journal; j != nil {
		switch j.Phase {
		case generation.PhaseVerify:
			e.say("state", Warning, "prelet verify, when the kubelet runs", count(j.Tries, "boot")+" so far tried to tell", "generation %d awaits its verdict", j.Gen)
		default:
			e.say("state", Warning, "prelet recover, or the next run", "a run was interrupted", "generation %d is half in place (%s)", j.Gen, j.Phase)
		}
	}
	for _, r := range k.Rotten {
		do := "nothing: an older one that was good is gone back to"
		if r.Gen == k.Current {
			do = "prelet run makes a generation of what is in place"
		}
		e.say("state", Warning, do, generation.DescribeDamage(r.Why), "generation %d is damaged", r.Gen)
	}
	if k.Pinned != "" {
		e.say("state", Warning, "prelet rollback --release", k.Pinned, "every plan is held")
	}
	for _, plan := range slices.Sorted(maps.Keys(k.Held)) {
		e.say("state", Warning, "mend the site, or prelet run --retry", k.Held[plan], "plan %.12s is held", plan)
	}
	if k.Lock != "" {
		e.say("state", Warning, "wait for it, or see what it waits for", "a run waits two minutes for it, then ends with 75", "another process holds the lock: %s", k.Lock)
	}
	if e.none("state") {
		switch {
		case k.Current == 0:
			e.say("state", OK, "", "", "prelet has not run here yet")
		case k.Adopted:
			e.say("state", OK, "", "", "generation %d is in place, adopted: its files were as planned already", k.Current)
		default:
			e.say("state", OK, "", "", "generation %d is in place, nothing is pending", k.Current)
		}
	}
}

func (e *examination) detectors() {
	p := e.in.Plan
	if p == nil || p.Site == nil || len(p.Site.Detectors) == 0 || !e.none("detectors") {
		return
	}
	e.say("detectors", OK, "", "", "%s declared, nothing is wrong", count(len(p.Site.Detectors), "detector"))
}
