package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
)

// watched tells what the watch saw over all processes.
func (k *kit) watched() {
	ids := []string{"no-writes", "no-network", "declared"}
	if k.watch != "" {
		for _, id := range ids {
			k.check(id, title(id), Skipped, "the kernel gives no watch: "+k.watch, "")
		}
		return
	}
	t := k.tried
	if !k.reached { // what it would have done later is not known: nothing of it has passed
		isEmpty := map[string]bool{"no-writes": len(t[wrote]) == 0, "no-network": len(t[network])+len(t[dialled]) == 0,
			"declared": len(t[executed])+len(t[connected])+len(t[called])+len(t[read]) == 0}
		defer func() {
			for i, c := range k.report.Checks {
				if isEmpty[c.ID] {
					k.report.Checks[i] = Check{ID: c.ID, Title: c.Title, State: Skipped, Found: "it was never asked about a machine"}
				}
			}
		}()
	}
	k.judge("no-writes", title("no-writes"), Failed, t[wrote], "The sandbox refuses it, and a detector that looks has nothing to write. Devices to open belong into needs.devices or wants.devices.")
	used, how := Note, "It was refused, as on a node, and was not missed: libraries look whether there is IPv6. Interfaces and links are in /sys/class/net, without a socket."
	var sockets []string
	for _, s := range t[dialled] {
		used, how = Failed, "The sandbox refuses it: a detector looks at its machine, and tells."
		sockets = append(sockets, "connects to "+s)
	}
	k.judge("no-network", title("no-network"), used, append(sockets, t[network]...), how)
	var undeclared []string
	for _, s := range t[executed] {
		undeclared = append(undeclared, "runs "+s)
	}
	for _, s := range t[connected] {
		undeclared = append(undeclared, "connects to "+s)
	}
	for _, s := range t[called] {
		undeclared = append(undeclared, "calls "+s+", which is refused to all detectors")
	}
	mend := "Describe it in needs (cannot work without) or wants (tells more with it): the site grants it. It was refused here, as on a node."
	if len(t[called]) > 0 {
		mend += " What is refused to all detectors no site can grant: do without."
	}
	state := Failed
	if len(undeclared) == 0 {
		state = Note // refused and survived: then it was not needed
	}
	for _, s := range t[read] {
		undeclared = append(undeclared, "reads "+s)
	}
	k.judge("declared", title("declared"), state, undeclared, mend)
}

// grants is what the detector may do in the process that starts next: nothing before the description is known, as on a node where
// it is locked.
func (k *kit) grants() contract.Needs {
	n := k.report.Description.Needs
	if k.wants {
		w := k.report.Description.Wants
		n = contract.Needs{Devices: slices.Concat(n.Devices, w.Devices), Read: slices.Concat(n.Read, w.Read), Execute: slices.Concat(n.Execute, w.Execute),
			Sockets: slices.Concat(n.Sockets, w.Sockets), Groups: slices.Concat(n.Groups, w.Groups), AnyPCIDevice: n.AnyPCIDevice || w.AnyPCIDevice}
	}
	return n
}

// forgive takes from what was tried what is declared: the first process was asked what that is, and had no grant yet.
func (k *kit) forgive(declared contract.Needs) {
	for kind, isDeclared := range map[attempt]func(what string) bool{
		read:      func(p string) bool { return mayRead(declared, p) || matches(declared.Devices, p) },
		executed:  func(p string) bool { return matches(declared.Execute, p) },
		connected: func(p string) bool { return matches(declared.Sockets, p) },
		wrote: func(what string) bool {
			p, isOpen := strings.CutPrefix(what, openForWriting)
			return isOpen && matches(declared.Devices, p)
		},
	} {
		k.tried[kind] = slices.DeleteFunc(k.tried[kind], isDeclared)
	}
}

// readable is what must be read to run at all: the program, its interpreter, the given roots.
func (k *kit) readable() []string {
	out := slices.Clone(k.options.Roots)
	if own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.program.Fd())); err == nil {
		out = append(out, own)
	}
	return append(out, interpreter(k.program)...)
}
