package restart

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/condition"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	maxConditions = 16
	maxMessage    = 300 // characters of the message of a condition
)

// conditions returns the conditions of the Node, by their checks alone, in the order of the site.
func (r *renderer) conditions() (out []desired.Condition) {
	blocks := r.cfg.Blocks[nodeCondBlock]
	if len(blocks) > maxConditions {
		r.Error(fault.Limit, blocks[maxConditions].Range, "Too many conditions",
			"There are %d conditions, and %d at most. Combine some: a condition can have several checks.",
			len(blocks), maxConditions)
	}

	seen := map[string]bool{}
	for _, b := range blocks {
		typ := b.Labels[0]
		err := checkConditionType(typ)
		switch {
		case err != nil:
			r.Error(fault.WrongType, b.Range, fmt.Sprintf("Invalid condition %q", typ), "%s",
				stages.Sentence(err.Error()))
			continue
		case seen[typ] && !b.Undecided:
			r.Error(fault.Duplicate, b.Range, fmt.Sprintf("Duplicate condition %q", typ), "Remove one of them.")
			continue
		}

		found := r.renderCondition(b, typ)
		if b.Undecided {
			continue
		}
		seen[typ] = true
		out = append(out, desired.Condition{
			Condition: found,
			Checked:   len(b.Blocks[checkBlock]) > 0,
			Drift:     driftAttr.Of(b).V,
		})
	}

	return out
}

// renderCondition returns a condition by its checks: the first that does not hold, or else the first that is null.
func (r *renderer) renderCondition(b schema.Body, typ string) condition.Condition {
	out := condition.Condition{
		Type:    typ,
		Status:  condition.True,
		Reason:  condition.Verified,
		Message: condition.Healthy,
	}

	var at hcl.Range
	for _, check := range b.Blocks[checkBlock] {
		attr := checkedAttr.Of(check)
		switch {
		case attr.Null() && out.Status == condition.True:
			out.Status, out.Reason = condition.Unknown, condition.CheckUnknown
			out.Message = "a check of the site has no result: " + shorten(checkMessageAttr.Of(check))
			at = attr.Range
		case attr.Set() && !attr.V && out.Status != condition.False:
			out.Status, out.Reason = condition.False, condition.CheckFailed
			out.Message = shorten(checkMessageAttr.Of(check))
			at = attr.Range
		}
	}
	if out.Status != condition.True && !b.Undecided {
		r.warnCondition(at, out)
	}

	return out
}

// warnCondition reports a condition that will not be True. A check of the site has no machine that could have it.
func (r *renderer) warnCondition(at hcl.Range, c condition.Condition) {
	if r.in.Check {
		return
	}

	r.Warn(
		fault.NodeCondition, at, fmt.Sprintf("Condition %s of the Node is %s", c.Type, c.Status),
		"%s", stages.Sentence(c.Message),
	)
}

// shorten returns the message of a check as one line of at most maxMessage characters.
func shorten(message schema.Value[string]) string {
	text := strings.Join(strings.FieldsFunc(message.V, func(c rune) bool {
		return unicode.IsSpace(c) || !unicode.IsPrint(c)
	}), " ")
	if text == "" {
		return "it has no message on this machine"
	}
	if long := []rune(text); len(long) > maxMessage {
		return string(long[:maxMessage-1]) + "…"
	}

	return text
}

// adminConditions are the types without a domain that Kubernetes leaves to the admin of a node.
// Source: k8s.io/api 0.37, core/v1, NodeConditionType.
var adminConditions = []string{
	"GracefulNodeShutdownInProgress", "DrainInProgress", "Drained", "MaintenancePlanned", "MaintenanceInProgress",
}

// checkConditionType refuses a type without a domain that is not the admin's: the kubelet and its tools use those.
func checkConditionType(typ string) error {
	switch {
	case slices.Contains(adminConditions, typ):
		return nil
	case !strings.Contains(typ, "/"):
		return errors.New("the type of a condition needs a domain, as in example.com/GPUReady: types without one are " +
			"the kubelet's, except " + strings.Join(adminConditions, ", "))
	}
	if why := content.IsLabelKey(typ); len(why) > 0 {
		return errors.New("the type of a condition is written as the key of a label, example.com/GPUReady: " +
			strings.Join(why, "; "))
	}

	return nil
}
