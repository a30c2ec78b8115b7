package boot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/world"
)

// Aside is a previous identity: the image was made of a node that had joined, so the identity on the disk is not this
// node's. It is set aside, and the node joins again under its own name.
type Aside struct {
	Node  string   // the name in its certificate; "" where there is none
	Why   string   // how that is known
	Files []string // that hold it
}

// purposeIdentity marks managed files that hold an identity which is set aside.
const purposeIdentity = "identity"

// settleIdentity decides whose identity is on the disk, once the node's name is known from the site and the base. It
// returns the identity that is set aside (nil: none), and what the kubelet's answers are then.
//
// What the machine itself knows is certain: the current generation belongs to another machine, or to this one.
// Without a generation (an image baked of a node that joined without prelet) there are only names. A planned name is
// certain: the API server accepts no other node from this certificate, so nothing is lost by joining again. The
// host's own name counts only if the machine id is younger than the identity, because hosts have had other names than
// their nodes.
func settleIdentity(b basis, checking bool) (*Aside, world.KubeletAns, hcl.Diagnostics) {
	id := b.kubelet.Identity
	if id == nil || checking {
		return nil, b.kubelet, nil
	}

	name, at, isPlanned := findPlannedName(b)
	isOther := b.kubelet.Joined && id.Node != "" && name != "" && name != id.Node
	why := ""
	switch {
	case id.Foreign != "":
		why = id.Foreign
	case !isOther:
		return nil, b.kubelet, nil
	case isPlanned && id.Ours:
		return nil, b.kubelet, hcl.Diagnostics{refuseRename(id.Node, name, at)}
	case id.Ours: // a host that was renamed, or that does not know its name yet
		return nil, b.kubelet, nil
	case isPlanned:
		why = fmt.Sprintf("its certificate is of node %s, and this node is to be %s", id.Node, name)
	case id.Older:
		why = fmt.Sprintf("its certificate is of node %s, this host is %s, and it is older than this machine's id",
			id.Node, name)
	default:
		return nil, b.kubelet, hcl.Diagnostics{noteHostName(id.Node, name)}
	}

	aside := &Aside{Node: id.Node, Why: why, Files: slices.Clone(id.Files)}
	k := b.kubelet
	k.Joined, k.JoinedWhy = false, "kubelet.conf belongs to "+aside.describeOwner()+": "+why

	return aside, k, hcl.Diagnostics{warnAside(aside, at)}
}

func warnAside(aside *Aside, at hcl.Range) *hcl.Diagnostic {
	return origin.Warning(fault.Identity, at, "The identity on this disk is that of "+aside.describeOwner(),
		"%s. It is set aside: %d files go, and their bytes stay in the generation. The node joins afresh, "+
			"under its own name, with the token.", capitalize(aside.Why), len(aside.Files))
}

func refuseRename(old, name string, at hcl.Range) *hcl.Diagnostic {
	return origin.Error(fault.NodeName, at, "A node that has joined keeps its name",
		"This one joined as %s, and the site calls it %s: the cluster takes no other node from its certificate. "+
			"Write the old name. To rename the node: `kubectl delete node %[1]s`, remove /etc/kubernetes/kubelet.conf and "+
			"/var/lib/kubelet/pki/kubelet-client-*, and run again: it joins with the token.", old, name)
}

func noteHostName(nodeName, host string) *hcl.Diagnostic {
	return origin.Note(fault.Identity, hcl.Range{}, "The node is called otherwise than the host",
		"kubelet.conf is of node %s, and this host is called %s. That is kept. If this machine is a copy of that node, "+
			"write its name into the site, node { name = … }: then it joins afresh. If it is that node, "+
			"write node { name = %q }, and this note goes.", nodeName, host, nodeName)
}

// findPlannedName returns the name that the node shall have, as far as it is known before files are rendered, and
// whether the site or the base sets it. "": a cloud provider inside the kubelet names the node.
func findPlannedName(b basis) (name string, at hcl.Range, isPlanned bool) {
	if b.identity.Name != nil {
		return strings.ToLower(*b.identity.Name), b.identity.NameRange, true
	}

	name = b.kubelet.Identity.Host
	for _, f := range b.base.Flags {
		switch {
		case f.Name == "cloud-provider" && f.Value != "" && f.Value != "external":
			return "", hcl.Range{}, false
		case f.Name == "hostname-override" && f.Value != "":
			name, isPlanned = strings.ToLower(f.Value), true
		}
	}

	return name, hcl.Range{}, isPlanned
}

// capitalize makes a text the beginning of a sentence.
func capitalize(s string) string {
	if s == "" {
		return s
	}

	return strings.ToUpper(s[:1]) + s[1:]
}

// Sentence returns what happened to the identity, for a report.
func (a *Aside) Sentence() string {
	return fmt.Sprintf("the identity of %s was on this disk (%s); it is set aside, "+
		"and the node joins afresh under its own name", a.describeOwner(), a.Why)
}

func (a *Aside) describeOwner() string {
	if a.Node == "" {
		return "another machine"
	}

	return "node " + a.Node
}
