package judge

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
)

// checkHost warns of what kubeadm checks before a kubelet starts, and a kubelet does not check itself, or fails with
// later. Without an answer (a recording that is older, another machine) it reports nothing.
func (j checker) checkHost(ctx context.Context) {
	if j.Tape == nil || j.effective.Config == nil {
		return
	}
	listeners := rules.Listeners(j.effective)
	req := tape.HostReq{Ports: []int64{}}
	for _, l := range listeners {
		req.Ports = append(req.Ports, l.Port)
	}
	a, isKnown := ask(ctx, j, tape.Host, req)
	if !isKnown {
		return
	}

	for _, l := range listeners {
		j.checkListener(l, a.Listeners)
	}
	at := j.findFileRange("kubelet-config")
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
	if start := j.Start; len(a.Programs) > 0 && (start == nil || !slices.Contains(start.Sets, "PATH")) {
		warn("Programs that the kubelet executes are missing: "+strings.Join(a.Programs, ", "),
			"Pods with volumes that need them do not start. Install them in the image; most distributions have them "+
				"in mount and util-linux.")
	}
}

// checkNetwork reports a missing configuration of CNI. Before a node has joined that is usual, so it is a note.
func (j checker) checkNetwork(folder string) {
	isPlanned := func(f desired.File) bool { return path.Dir(f.Path) == folder }
	if folder == "" || slices.ContainsFunc(j.Node.Files, isPlanned) {
		return
	}
	report := j.Note
	if j.Kubelet.Joined {
		report = j.Warn
	}

	report(
		fault.KubeletMachine, j.findFileRange("kubelet-config"), folder+" has no network configuration (CNI)",
		"The Node is NotReady until it has one. A network plugin that runs as a DaemonSet writes it after the node "+
			"has joined (kubectl get pods -A -o wide --field-selector spec.nodeName=NODE); another one installs it.",
	)
}

// checkListener warns of another process that listens where the kubelet will. It may end before the kubelet starts.
func (j checker) checkListener(l rules.Listener, found []tape.ListenerAns) {
	i := slices.IndexFunc(found, func(other tape.ListenerAns) bool { return l.IsTakenBy(other.At) })
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
func (j checker) leavesForwarding() bool {
	flag, _ := desired.FindFlag(j.Node.Flags, "node-ip")
	isIPv6 := strings.Contains(flag.Value, ":") && !strings.Contains(flag.Value, ".")

	return isIPv6 || slices.ContainsFunc(j.Node.Files, func(f desired.File) bool {
		return path.Base(path.Dir(f.Path)) == "sysctl.d" && strings.Contains(f.Text.Template(), "ip_forward")
	})
}
