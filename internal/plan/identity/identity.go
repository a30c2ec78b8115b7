// Package identity decides under which name a node joins, and whether it keeps the identity on its disk, which may be
// another machine's or damaged: by the node block, the base, that identity, and the Node of that name in the cluster.
package identity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/stages"
)

// Previous is an identity on the disk that this node cannot have: it is another machine's, because the image was made
// of a node that had joined, or it is damaged. Its files are removed, and the node joins again under its own name.
type Previous struct {
	Node    string   `json:"node"`              // the name in its certificate; "" where there is none
	Why     string   `json:"why"`               // how that is known
	Damaged bool     `json:"damaged,omitempty"` // it is this node's, and no kubelet can load it
	Files   []string `json:"-"`                 // that contain it

	kind, next string // of a damaged one: client or serving, and what follows
}

// findOwner describes the machine of a Node in the cluster if it is certainly another one; "" if it is this machine or
// not known. isAnswered is false if the cluster did not say.
type findOwner func(node string) (owner string, isAnswered bool)

// decision is the input of Check, and its findings so far.
type decision struct {
	*origin.Collector

	in        *stages.Inputs
	id        *tape.IdentityAns
	other     findOwner
	name      string // that the node will have
	at        hcl.Range
	isPlanned bool // the site or the base sets the name
}

// Check decides whose identity is on the disk, once the node's name is known from the site and the base. It returns a
// previous identity (nil: there is none), and changes the kubelet's answers to those without it. If the owner is
// unknown, the node keeps the identity and its name, even if the site sets another name.
//
// With a generation, probe has compared the machine that made it with this one. Without one (an image baked of a node
// that joined without prelet) there are only names and times. Both are judged by the table of machineid.Marks.
func Check(in *stages.Inputs, found *origin.Collector, other findOwner) *Previous {
	id := in.Kubelet.Identity
	if id == nil {
		return nil
	}

	d := decision{Collector: found, in: in, id: id, other: other}
	d.name, d.at, d.isPlanned = findPlannedName(*in)
	why := d.decide()
	if id.Changed != "" {
		d.Note(
			fault.Identity, hcl.Range{}, "A mark of this machine has changed",
			"%s, and another one is the same: it is still node %s. %s",
			origin.Capitalize(id.Changed), id.Node, howToLeave,
		)
	}
	if id.Doubt != "" {
		d.warnDoubt()
	}
	if why == "" {
		return nil
	}

	previous := &Previous{
		Node:  id.Node,
		Why:   why,
		Files: slices.Clone(id.Files),
	}
	in.Kubelet.Joined = false
	in.Kubelet.JoinedWhy = "kubelet.conf belongs to " + previous.Owner() + ": " + why
	d.Warn(
		fault.Identity, d.at, "The identity on this disk belongs to "+previous.Owner(),
		"%s. Its %d files are removed, and the generation keeps their content. "+
			"The node joins again under its own name, with the token. %s.",
		origin.Capitalize(why), len(previous.Files), origin.Capitalize(machineid.HowToKeep),
	)

	return previous
}

// decide returns why the identity on the disk is another machine's; "" if it stays.
func (d decision) decide() (why string) {
	id := d.id
	isOther := d.in.Kubelet.Joined && id.Node != "" && d.name != "" && d.name != id.Node
	if id.Foreign != "" || !isOther {
		return id.Foreign
	}
	marks := machineid.Marks{Node: machineid.CompareNames(id.Host, id.Node)}
	if id.Older {
		marks.ID = machineid.Differs
	}
	if d.isPlanned {
		marks.Site = machineid.Differs
	}

	switch verdict := marks.Judge(); {
	case id.Ours && !d.isPlanned: // the host was renamed, or does not know its name yet
		d.noteHostName(howToLeave + " " + d.howToRename())
	case !id.Ours && verdict == machineid.NotKnown && d.isPlanned:
		d.in.Node.Name, d.in.Node.NameRange = &id.Node, d.at
		d.warnOtherName()
	case (id.Ours || verdict != machineid.AnotherMachine) && d.isPlanned:
		d.refuseRename()
	case verdict != machineid.AnotherMachine:
		d.noteHostName("If it is a copy of that node, write its own name: then it joins again. " +
			origin.Capitalize(machineid.HowToKeep) + ".")
	case d.isPlanned:
		return fmt.Sprintf("its certificate belongs to node %s, and this node is to be %s", id.Node, d.name)
	default:
		return fmt.Sprintf(
			"its certificate belongs to node %s, this host is %s, and it is older than this machine's id",
			id.Node, d.name,
		)
	}

	return ""
}

const doubtSummary = "Whose identity is on this disk is not certain"

// warnDoubt warns of an identity of which the marks do not show whose it is. The node goes on as it: to stop a node of
// this machine is worse than to let a copy run, which the cluster shows.
func (d decision) warnDoubt() {
	d.Warn(
		fault.Identity, hcl.Range{}, doubtSummary,
		"kubelet.conf belongs to node %s. %s, and the other marks of this machine do not decide it. "+
			"This machine goes on as that node. %s. %s",
		d.id.Node, origin.Capitalize(d.id.Doubt), origin.Capitalize(machineid.HowToKeep), howToLeave,
	)
	d.Degrade(fault.Identity, fmt.Sprintf(
		"it is not certain that node %s is this machine: %s; %s", d.id.Node, d.id.Doubt, machineid.HowToKeep,
	))
}

// warnOtherName is warnDoubt where only the name of the site differs: without a generation nothing else is known.
func (d decision) warnOtherName() {
	d.Warn(
		fault.Identity, d.at, doubtSummary,
		"kubelet.conf belongs to node %s, and the site names this machine %s; no other mark of it is known. "+
			"It goes on as node %[1]s. %[3]s, and write the old name. %[4]s",
		d.id.Node, d.name, origin.Capitalize(machineid.HowToKeep), howToLeave,
	)
	d.Degrade(fault.Identity, fmt.Sprintf(
		"it is not certain that this machine is node %s, and the site names it %s; %s",
		d.id.Node, d.name, machineid.HowToKeep,
	))
}

// refuseRename refuses another name for a node that has joined. Only a copied disk gets a new name: on the node itself
// a typing error in the site would make new nodes of a fleet.
func (d decision) refuseRename() {
	d.Error(
		fault.NodeName, d.at, "A node that has joined keeps its name",
		"This node joined as %s, and the site names it %s: "+
			"the cluster accepts its certificate for the old name only. Write the old name. %s %s",
		d.id.Node, d.name, howToLeave, d.howToRename(),
	)
}

// howToLeave is for a copy of a node's disk, and comes before howToRename: to delete the Node would delete that of the
// machine that was copied. Without --root, seal refuses the identity of the running node.
const howToLeave = "If this disk is a copy of that node's: `" + machineid.SealHere + "`; " +
	"it needs a token again, because that is removed too."

// howToRename returns how a node that has joined gets another name. It never deletes the Node of a machine that runs:
// not at all where the Node is known to be another machine's, or the cluster does not say whose it is, and else only
// once it is not Ready without this kubelet.
func (d decision) howToRename() string {
	node := d.id.Node
	switch other, isAnswered := d.other(node); {
	case other != "":
		return fmt.Sprintf("Node %s in the cluster is another machine (%s), so this disk is a copy.", node, other)
	case !isAnswered:
		return fmt.Sprintf("The cluster did not say whose Node %s is. To rename the node, run again once it answers.",
			node)
	}

	return fmt.Sprintf("To rename the node: `systemctl stop kubelet` here, then `%s`, which does nothing while "+
		"another "+
		"machine keeps the node Ready; `rm /etc/kubernetes/kubelet.conf /var/lib/kubelet/pki/kubelet-client-*`, "+
		"and run again: it joins with the token.", DeleteNode(node))
}

// DeleteNode returns the command that deletes the Node of a machine whose kubelet was stopped. If the Node stays Ready,
// another machine runs under its name, and it is not deleted.
func DeleteNode(node string) string {
	return fmt.Sprintf(
		"kubectl wait --for=condition=Ready=Unknown --timeout=3m node/%s && kubectl delete node %[1]s", node,
	)
}

// noteHostName notes that the host has another name than its node. otherwise is what to do where that is right.
func (d decision) noteHostName(otherwise string) {
	d.Note(
		fault.Identity, hcl.Range{}, "The node and the host have different names",
		"kubelet.conf belongs to node %s, and this host is called %s. Without --hostname-override the kubelet uses "+
			"the host's name, and the cluster does not accept that from the certificate of %[1]s. "+
			"If this machine is node %[1]s, write node { name = %[1]q }, or give the host that name. %[3]s",
		d.id.Node, d.name, otherwise,
	)
}

// findPlannedName returns the name that the node will have, as far as it is known before files are rendered, and
// whether the site or the base sets it. "": a cloud provider inside the kubelet names the node.
func findPlannedName(in stages.Inputs) (name string, at hcl.Range, isPlanned bool) {
	if in.Node.Name != nil {
		return strings.ToLower(*in.Node.Name), in.Node.NameRange, true
	}

	name, isCloud := FindNameFlags(in.Base.Flags)
	switch {
	case isCloud:
		return "", at, false
	case name != "":
		return strings.ToLower(name), at, true
	}

	return in.Kubelet.Identity.Host, at, false
}

// FindNameFlags returns the node's name in flags; "" for none. isCloud: a cloud provider inside the kubelet names
// the node.
func FindNameFlags(flags []desired.Flag) (name string, isCloud bool) {
	for _, f := range flags {
		switch {
		case f.Assumed || f.Value == "":
		case f.Name == "cloud-provider" && f.Value != "external":
			return "", true
		case f.Name == "hostname-override":
			name = f.Value
		}
	}

	return name, false
}

// Sentence returns a clause without a period: the identity on the disk, and the action of this run.
func (p *Previous) Sentence() string {
	if p.Damaged {
		return fmt.Sprintf(
			"the kubelet's %s certificate was damaged (%s); it is set aside, and %s", p.kind, p.Why, p.next,
		)
	}

	return fmt.Sprintf(
		"the identity of %s was on this disk (%s); it is removed, and the node joins again under its own name",
		p.Owner(), p.Why,
	)
}

// WhyRemoved returns why a file of the identity is removed.
func (p *Previous) WhyRemoved() string {
	if p.Damaged {
		return p.Why + ", so the kubelet refuses to start with it"
	}

	return "it belongs to " + p.Owner()
}

// WhyRestart returns why the kubelet is restarted.
func (p *Previous) WhyRestart() string {
	if p.Damaged {
		return "its damaged " + p.kind + " certificate is removed"
	}

	return "the identity of " + p.Owner() + " is removed"
}

// Owner returns the owner of the identity in words: "node NAME", or "another machine" if the name is unknown.
func (p *Previous) Owner() string {
	if p.Node == "" {
		return "another machine"
	}

	return "node " + p.Node
}
