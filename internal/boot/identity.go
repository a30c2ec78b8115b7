package boot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/platform/machineid"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/stages"
)

// PreviousIdentity is an identity on the disk that is not this node's, because the image was made of a node that
// had joined. Its files are removed, and the node joins again under its own name.
type PreviousIdentity struct {
	Node  string   `json:"node"` // the name in its certificate; "" where there is none
	Why   string   `json:"why"`  // how that is known
	Files []string `json:"-"`    // that contain it
}

// purposeIdentity marks managed files that contain a previous identity.
const purposeIdentity = "identity"

// checkIdentity decides whose identity is on the disk, once the node's name is known from the site and the base. It
// returns a previous identity (nil: there is none), and the kubelet's answers without it. If this is not known, the
// node goes on as the identity's and keeps that name in b, whatever the site names it.
//
// With a generation, probe has compared the machine that made it with this one. Without one (an image baked of a node
// that joined without prelet) there are only names and times. Both are judged by the table of machineid.Marks.
func checkIdentity(b *stages.Inputs) (*PreviousIdentity, world.KubeletAns, Findings) {
	id := b.Kubelet.Identity
	if id == nil {
		return nil, b.Kubelet, Findings{}
	}

	why, found := decideIdentity(b)
	if id.Changed != "" {
		found.Report(noteChanged(id))
	}
	if id.Doubt != "" {
		found.Report(warnDoubt(id))
		found.Degrade(fault.Identity, fmt.Sprintf(
			"it is not certain that node %s is this machine: %s; %s", id.Node, id.Doubt, machineid.HowToKeep,
		))
	}
	if why == "" {
		return nil, b.Kubelet, found
	}

	previous := &PreviousIdentity{
		Node:  id.Node,
		Why:   why,
		Files: slices.Clone(id.Files),
	}
	k := b.Kubelet
	k.Joined = false
	k.JoinedWhy = "kubelet.conf belongs to " + previous.describeOwner() + ": " + why
	_, at, _ := findPlannedName(*b)
	found.Report(origin.Warning(
		fault.Identity, at, "The identity on this disk belongs to "+previous.describeOwner(),
		"%s. Its %d files are removed, and the generation keeps their content. "+
			"The node joins again under its own name, with the token. %s.",
		origin.Capitalize(why), len(previous.Files), origin.Capitalize(machineid.HowToKeep),
	))

	return previous, k, found
}

// decideIdentity returns why the identity on the disk is another machine's; "" if it stays.
func decideIdentity(b *stages.Inputs) (why string, found Findings) {
	id := b.Kubelet.Identity
	name, at, isPlanned := findPlannedName(*b)
	isOther := b.Kubelet.Joined && id.Node != "" && name != "" && name != id.Node
	if id.Foreign != "" || !isOther {
		return id.Foreign, found
	}
	if id.Ours && isPlanned {
		return "", newFindings(refuseRename(id.Node, name, at))
	}
	if id.Ours { // the host was renamed, or does not know its name yet
		return "", newFindings(noteHostName(id.Node, name, howToLeave+" "+howToRename(id.Node)))
	}

	marks := machineid.Marks{Node: machineid.CompareNames(id.Host, id.Node)}
	if id.Older {
		marks.ID = machineid.Differs
	}
	if isPlanned {
		marks.Site = machineid.Differs
	}

	switch {
	case marks.Judge() == machineid.NotKnown && isPlanned:
		b.Node.Name, b.Node.NameRange = &id.Node, at
		found.Report(warnOtherName(id.Node, name, at))
		found.Degrade(fault.Identity, fmt.Sprintf(
			"it is not certain that this machine is node %s, and the site names it %s; %s",
			id.Node, name, machineid.HowToKeep,
		))
		return "", found
	case marks.Judge() != machineid.AnotherMachine && isPlanned:
		return "", newFindings(refuseRename(id.Node, name, at))
	case marks.Judge() != machineid.AnotherMachine:
		return "", newFindings(noteHostName(
			id.Node, name, "If it is a copy of that node, write its own name: then it joins again. "+
				origin.Capitalize(machineid.HowToKeep)+".",
		))
	case isPlanned:
		return fmt.Sprintf("its certificate belongs to node %s, and this node is to be %s", id.Node, name), found
	default:
		return fmt.Sprintf(
			"its certificate belongs to node %s, this host is %s, and it is older than this machine's id",
			id.Node, name,
		), found
	}
}

// warnDoubt warns of an identity of which the marks do not show whose it is. The node goes on as it: to stop a node of
// this machine is worse than to let a copy run, which the cluster shows.
func warnDoubt(id *world.IdentityAns) *hcl.Diagnostic {
	return origin.Warning(
		fault.Identity, hcl.Range{}, "Whose identity is on this disk is not certain",
		"kubelet.conf belongs to node %s. %s, and the other marks of this machine do not decide it. "+
			"This machine goes on as that node. %s. %s",
		id.Node, origin.Capitalize(id.Doubt), origin.Capitalize(machineid.HowToKeep), howToLeave,
	)
}

// warnOtherName is warnDoubt where only the name of the site differs: without a generation nothing else is known.
func warnOtherName(nodeName, name string, at hcl.Range) *hcl.Diagnostic {
	return origin.Warning(
		fault.Identity, at, "Whose identity is on this disk is not certain",
		"kubelet.conf belongs to node %s, and the site names this machine %s; no other mark of it is known. "+
			"It goes on as node %[1]s. %[3]s, and write the old name. %[4]s",
		nodeName, name, origin.Capitalize(machineid.HowToKeep), howToLeave,
	)
}

func noteChanged(id *world.IdentityAns) *hcl.Diagnostic {
	return origin.Note(
		fault.Identity, hcl.Range{}, "A mark of this machine has changed",
		"%s, and another one is the same: it is still node %s. %s",
		origin.Capitalize(id.Changed), id.Node, howToLeave,
	)
}

// refuseRename refuses another name for a node that has joined. Only a copied disk gets a new name: on the node itself
// a typing error in the site would make new nodes of a fleet.
func refuseRename(old, name string, at hcl.Range) *hcl.Diagnostic {
	return origin.Error(
		fault.NodeName, at, "A node that has joined keeps its name",
		"This node joined as %s, and the site names it %s: "+
			"the cluster accepts its certificate for the old name only. Write the old name. %s %s",
		old, name, howToLeave, howToRename(old),
	)
}

// howToLeave is for a copy of a node's disk, and comes before howToRename: to delete the Node would delete that of the
// machine that was copied. Without --root, seal refuses the identity of the running node.
const howToLeave = "If this disk is a copy of that node's: `" + machineid.SealHere + "`; " +
	"it needs a token again, because that is removed too."

// howToRename returns how a node that has joined gets another name.
func howToRename(node string) string {
	return fmt.Sprintf("To rename the node: `kubectl delete node %s`, "+
		"remove /etc/kubernetes/kubelet.conf and /var/lib/kubelet/pki/kubelet-client-*, "+
		"and run again: it joins with the token.", node)
}

// noteHostName notes that the host has another name than its node. otherwise is what to do where that is right.
func noteHostName(nodeName, host, otherwise string) *hcl.Diagnostic {
	return origin.Note(
		fault.Identity, hcl.Range{}, "The node and the host have different names",
		"kubelet.conf belongs to node %s, and this host is called %s. Without --hostname-override the kubelet uses "+
			"the host's name, and the cluster does not accept that from the certificate of %[1]s. "+
			"If this machine is node %[1]s, write node { name = %[1]q }, or give the host that name. %[3]s",
		nodeName, host, otherwise,
	)
}

// findPlannedName returns the name that the node will have, as far as it is known before files are rendered, and
// whether the site or the base sets it. "": a cloud provider inside the kubelet names the node.
func findPlannedName(b stages.Inputs) (name string, at hcl.Range, isPlanned bool) {
	if b.Node.Name != nil {
		return strings.ToLower(*b.Node.Name), b.Node.NameRange, true
	}

	name, isCloud := FindNameFlags(b.Base.Flags)
	switch {
	case isCloud:
		return "", at, false
	case name != "":
		return strings.ToLower(name), at, true
	}

	return b.Kubelet.Identity.Host, at, false
}

// FindNameFlags returns the node's name in flags; "" for none. isCloud: a cloud provider inside the kubelet names
// the node.
func FindNameFlags(flags []node.Flag) (name string, isCloud bool) {
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

// NodeName returns the name that the node has or will have; "" if it is unknown.
func (p *Plan) NodeName() string {
	name, _ := FindNameFlags(p.Node.Flags)
	if id := p.Kubelet.Identity; id != nil {
		name = cmp.Or(name, id.Node, id.Host)
	}

	return name
}

// Sentence returns the report about the identity.
func (p *PreviousIdentity) Sentence() string {
	return fmt.Sprintf(
		"the identity of %s was on this disk (%s); it is removed, and the node joins again under its own name",
		p.describeOwner(), p.Why,
	)
}

func (p *PreviousIdentity) describeOwner() string {
	if p.Node == "" {
		return "another machine"
	}

	return "node " + p.Node
}
