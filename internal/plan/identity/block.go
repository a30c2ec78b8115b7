package identity

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Decode decodes the node block, and checks the name and the address in it. An invalid one is left out of
// the result, because the kubelet's rules would report it again.
func Decode(s *lang.Site, e *eval.Eval, found *origin.Collector) (out stages.NodeIdentity) {
	if s.Node == nil {
		return out
	}
	b, diags := schema.NodeBlock.Decode(s.Node, nil, e.Scope("node"))
	found.Report(diags...)

	if v := schema.NodeNameAttr.Of(b); v.Set() {
		if len(content.IsDNS1123Subdomain(v.V)) > 0 {
			found.Report(refuseNodeName(v))
		} else {
			out.Name = &v.V
		}
		out.NameRange = v.Range
	}

	if v := schema.NodeIP.Of(b); v.Set() {
		if err := checkNodeIP(v.V); err != nil {
			found.Error(
				fault.NodeName, v.Range, fmt.Sprintf("%q is not a valid node address", v.V),
				"%s. --node-ip takes one address, or an IPv4 and an IPv6 address with a comma between them.", err,
			)
		} else {
			out.IP = &v.V
		}
		out.IPRange = v.Range
	}

	if v := schema.NodeTakeover.Of(b); v.Set() {
		out.Takeover = v.V
		r := e.Reach(v.Expr)
		isConstant := !r.Vars && !r.Asks && len(r.Stages) == 0
		if v.V && isConstant {
			found.Warn(
				fault.NodeNameTaken, v.Range, "Every machine may take over a name",
				"takeover = true is for one machine and one boot: "+
					"two machines with one name would not be detected. "+
					"Write a variable here, or use `prelet run --takeover`.",
			)
		}
	}

	return out
}

// refuseNodeName returns the error for an invalid node name, with a similar valid name if there is one.
func refuseNodeName(v schema.Value[string]) *hcl.Diagnostic {
	hint := ""
	similar := strings.Trim(strings.ReplaceAll(strings.ToLower(v.V), "_", "-"), "-. ")
	if len(content.IsDNS1123Subdomain(similar)) == 0 {
		hint = fmt.Sprintf(" Write %q.", similar)
	}

	return origin.Error(
		fault.NodeName, v.Range, fmt.Sprintf("%q is not a valid node name", v.V),
		"It has lower case letters, digits, - and ., and begins and ends with a letter or a digit.%s", hint,
	)
}

// checkNodeIP checks a value of --node-ip (k8s.io/component-helpers, ParseNodeIPArgument): one address, or one of
// each family.
func checkNodeIP(s string) error {
	var all []netip.Addr
	for text := range strings.SplitSeq(s, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return fmt.Errorf("%q is not an IP address", text)
		}
		all = append(all, a)
	}
	isPair := len(all) == 2 && all[0].Is4() != all[1].Is4()
	if len(all) > 1 && !isPair {
		return errors.New("more than one address of a family")
	}

	return nil
}
