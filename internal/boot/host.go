package boot

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/lazy"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/world"
)

// checkHost warns of what kubeadm checks before a kubelet starts, and a kubelet does not check itself, or fails with
// later. Without an answer (a recording that is older, another machine) it reports nothing.
func (j ruleCheck) checkHost(ctx context.Context) {
	if j.tape == nil || j.effective.Config == nil {
		return
	}
	listeners := rules.Listeners(j.effective)
	req := world.HostReq{Ports: []int64{}}
	for _, l := range listeners {
		req.Ports = append(req.Ports, l.Port)
	}
	a, _, err := world.Host.Ask(ctx, j.tape, req)
	if err != nil {
		return
	}

	for _, l := range listeners {
		j.checkListener(l, a.Listeners)
	}
	at := j.findFileRange(configPurpose)
	warn := func(summary, detail string) {
		j.Warn(fault.KubeletMachine, at, summary, "%s", detail)
	}
	if a.NoForward && !j.leavesForwarding() {
		warn("The kernel does not forward IPv4 packets",
			"Pods cannot reach other nodes, unless the network plugin changes that. Set net.ipv4.ip_forward = 1 in a "+
				"file of /etc/sysctl.d.")
	}
	if len(a.Controllers) > 0 {
		warn("The kernel lacks cgroup controllers: "+strings.Join(a.Controllers, ", "),
			"The kubelet starts, and cannot limit pods by them. Look for cgroup_disable= in the kernel's command line.")
	}
	j.checkNetwork(a.NoNetwork)
	if start := j.basis.Start; len(a.Programs) > 0 && (start == nil || !slices.Contains(start.Sets, "PATH")) {
		warn("Programs that the kubelet executes are missing: "+strings.Join(a.Programs, ", "),
			"Pods with volumes that need them do not start. Install them in the image; most distributions have them "+
				"in mount and util-linux.")
	}
}

// checkSystemFiles notes files that systemd does not read. It warns of lines in files of sysctl.d that systemd-sysctl
// silently skips: those that are not assignments, and names that the kernel does not have. A name in a folder that does
// not exist may be one of a module that the site loads, or of an interface that appears later.
func (j ruleCheck) checkSystemFiles(ctx context.Context) {
	isModules := func(f node.File) bool {
		p := hostfiles.FindSystemPath(f.Path)
		return p != nil && p.Unit == "systemd-modules-load.service"
	}
	loadsModules := slices.ContainsFunc(j.node.Files, isModules)
	isMissing := func(p string) bool {
		exists, isKnown := j.pathExists(ctx, p)
		return isKnown && !exists
	}

	for _, f := range j.node.Files {
		if suffix := hostfiles.FindSuffix(f.Path); suffix != "" && f.Kind == node.Regular {
			j.Note(fault.FileUnusable, f.FindDeclaration(), "systemd does not read "+f.Path,
				"In this folder it reads names that end in %s. Write %s.", suffix,
				strings.TrimSuffix(f.Path, path.Ext(path.Base(f.Path)))+suffix)
		}
		for _, s := range hostfiles.ListSysctls(f.Path, f.Text.Template()) {
			at := f.FindDeclaration()
			switch {
			case s.Key == "":
				j.Warn(
					fault.FileUnusable, at, fmt.Sprintf("Line %d of %s is not an assignment", s.Line, f.Path),
					"systemd-sysctl skips it, and its unit fails. Write NAME = VALUE, or a comment (#).",
				)
			case s.Path == "" || !isMissing(s.Path):
			case isMissing(path.Dir(s.Path)) && (loadsModules || interfaceSysctl().MatchString(s.Path)):
			default:
				j.Warn(
					fault.KubeletMachine, at, "The kernel has no parameter "+s.Key,
					"Line %d of %s has no effect: systemd-sysctl skips it silently. Correct the name, load its module "+
						"by a file of /etc/modules-load.d, or write -%s = VALUE where it may be missing.",
					s.Line, f.Path, s.Key,
				)
			}
		}
	}
}

// interfaceSysctl is a parameter of one network interface.
var interfaceSysctl = lazy.Regexp(`^/proc/sys/net/ipv[46]/(conf|neigh)/`)

// checkNetwork reports a missing configuration of CNI. Before a node has joined that is usual, so it is a note.
func (j ruleCheck) checkNetwork(folder string) {
	isPlanned := func(f node.File) bool { return path.Dir(f.Path) == folder }
	if folder == "" || slices.ContainsFunc(j.node.Files, isPlanned) {
		return
	}
	report := j.Note
	if j.basis.Kubelet.Joined {
		report = j.Warn
	}

	report(
		fault.KubeletMachine, j.findFileRange(configPurpose), folder+" has no network configuration (CNI)",
		"The Node is NotReady until it has one. A network plugin that runs as a DaemonSet writes it after the node "+
			"has joined (kubectl get pods -A -o wide --field-selector spec.nodeName=NODE); another one installs it.",
	)
}

// checkListener warns of another process that listens where the kubelet will. It may end before the kubelet starts.
func (j ruleCheck) checkListener(l rules.Listener, found []world.ListenerAns) {
	i := slices.IndexFunc(found, func(other world.ListenerAns) bool { return l.IsTakenBy(other.At) })
	if i < 0 {
		return
	}

	who := "another process"
	if other := found[i]; other.PID != 0 {
		who = fmt.Sprintf("process %d (%q)", other.PID, other.Process)
	}
	effect := fmt.Sprintf("would exit: listen tcp %s: bind: address already in use", l)
	if l.Field == "healthzPort" {
		effect = "runs without its health check"
	}
	at := j.findSetter(rules.Violation{Pointer: "/" + l.Field}).at

	j.Warn(
		fault.KubeletMachine, at, fmt.Sprintf("Port %d of the kubelet is in use", l.Port),
		"%s has %s, so the kubelet %s. Stop that process (ss -ltnp lists it), or set another %s.",
		origin.Capitalize(who), found[i].At, effect, l.Field,
	)
}

// leavesForwarding reports whether the forwarding of IPv4 packets is of no interest: the site sets it in a file of
// sysctl.d, or the node has only IPv6 addresses.
func (j ruleCheck) leavesForwarding() bool {
	flag, _ := node.FindFlag(j.node.Flags, "node-ip")
	isIPv6 := strings.Contains(flag.Value, ":") && !strings.Contains(flag.Value, ".")

	return isIPv6 || slices.ContainsFunc(j.node.Files, func(f node.File) bool {
		return path.Base(path.Dir(f.Path)) == "sysctl.d" && strings.Contains(f.Text.Template(), "ip_forward")
	})
}

// askLogind returns what decides how long a shutdown can be delayed: the answer of the node, with the drop-ins that
// the site writes.
func (j ruleCheck) askLogind(ctx context.Context) (l rules.Logind, isKnown bool) {
	if j.tape == nil {
		return l, false
	}
	a, _, err := world.Logind.Ask(ctx, j.tape, world.LogindReq{})
	if err != nil {
		return l, false
	}

	l = rules.Logind{
		Missing:  a.Missing,
		Delay:    time.Duration(a.DelayMicros) * time.Microsecond,
		ReadOnly: a.ReadOnly,
	}
	l.Later, l.LaterDelay = hostfiles.FindLogindDelay(a.DropIns, j.node.Files)

	return l, true
}
