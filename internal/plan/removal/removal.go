// Package removal refuses a plan that removes the kubelet's own files, and a site that does not write them, unless that
// is meant for good.
package removal

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/internal/plan/blame"
	"github.com/prelet/prelet/internal/plan/eval"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// Guard protects the kubelet's own files from a plan that removes them.
type Guard struct {
	Site     *lang.Site
	Eval     *eval.Eval
	Node     desired.Node
	IsJoined bool
	Targets  []tape.ManagedTarget // of the current generation
	// IsRemoved reports whether the plan removes or restores a file that the site no longer declares.
	IsRemoved func(path string) bool
	// ListNeeded returns stages and all that they need.
	ListNeeded func(stages []string) []string
}

// Check refuses a plan that removes or restores the kubelet's own files, unless the site leaves them out for good:
// a write stage exists, and its block, or the stage, has a `when` that is the same on every machine and at every
// boot. A kubelet must not lose its configuration because a layer was not deployed, a file was masked or an answer
// is missing today.
func (in Guard) Check() hcl.Diagnostics {
	files, reasons := in.listRefused()
	if len(files) == 0 {
		return CheckHasWriter(in.Site)
	}

	return hcl.Diagnostics{origin.Error(
		fault.RemovalRefused, blame.FindWriter(in.Site), "The kubelet's own files would be removed",
		"Why: %s. So these would be removed or restored: %s. They stay, and nothing was changed. "+
			"Check that every file of the site exists (`prelet validate`). "+
			"To leave a file to others for good, write BLOCK { when = false } in stage \"write\"; "+
			"to undo all changes of prelet on this node, `prelet rollback 0`.",
		strings.Join(reasons, "; "), strings.Join(files, ", "),
	)}
}

// listRefused returns the files that must stay, sorted, and the reasons.
func (in Guard) listRefused() (files, reasons []string) {
	for _, t := range in.Targets {
		// The bootstrap kubeconfig is not a change of the plan: it is removed when the node has joined.
		isRemoved := in.IsRemoved(t.Path) || t.Purpose == "bootstrap-kubeconfig" && !in.IsJoined
		reason := in.explain(t)
		if !isRemoved || reason == "" || t.Action != "delete" && t.Action != "restore" {
			continue
		}
		files = append(files, t.Path)
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(files)

	return files, reasons
}

// explain returns why a file of the kubelet must stay; "" if it may be removed, or is not the kubelet's.
func (in Guard) explain(t tape.ManagedTarget) string {
	block := desired.Block(t.Purpose)
	_, isMoved := in.Node.FindPurpose(t.Purpose)
	if isMoved && t.Action == "delete" && in.isBelowDropIn(t) {
		return "layout = \"drop-in\" adds to " + t.Path + ", and prelet has made that file: " +
			"let the image or kubeadm make it, or use layout = \"file\""
	}
	isOfKubelet := block != "" || t.Purpose == "file" && in.isKubeletFile(t)
	if !isOfKubelet || block != "" && isMoved {
		return ""
	}

	all := in.Site.OfType(stages.Write)
	if len(all) == 0 {
		return "the site has no stage \"write\""
	}
	stage := all[0]
	if source := in.findVolatile(stage.When, stage.ForEach); source != "" {
		return fmt.Sprintf("the condition of stage.%s depends on %s", stage.Addr(), source)
	}
	if block == "" {
		return in.explainFile(stage, t.Path)
	}

	return in.explainBlock(stage, block)
}

// isBelowDropIn reports whether a file is the configuration that the planned drop-in adds to: the kubelet reads
// only drop-ins that end in .conf.
func (in Guard) isBelowDropIn(t tape.ManagedTarget) bool {
	return t.Purpose == "kubelet-config" && in.Node.DropIn != "" && !strings.HasSuffix(t.Path, ".conf")
}

// explainBlock is explain for a file of one of the kubelet's four blocks.
func (in Guard) explainBlock(stage *lang.Instance, block string) string {
	for _, b := range stage.Body.Blocks {
		if b.Type != block {
			continue
		}
		conditions := listConditions(b.Body)
		if source := in.findVolatile(conditions...); source != "" {
			return fmt.Sprintf("the condition of %s depends on %s", block, source)
		}
		if len(conditions) > 0 {
			return ""
		}
	}
	if stage.When != nil {
		return ""
	}

	return "the site has no content for " + block
}

// explainFile is explain for a file of the kubelet from a `file` block. If the site no longer has the block, the
// file may be removed.
func (in Guard) explainFile(stage *lang.Instance, path string) string {
	for _, b := range stage.Body.Blocks {
		a := b.Body.Attributes["path"]
		if b.Type != "file" || a == nil {
			continue
		}
		v, diags := a.Expr.Value(nil)
		isKnown := !diags.HasErrors() && v.IsKnown()
		isPath := value.IsText(v) && v.AsString() == path
		if isKnown && !isPath {
			continue
		}
		if source := in.findVolatile(listConditions(b.Body)...); source != "" {
			return fmt.Sprintf("the condition of file %q depends on %s", b.Labels[0], source)
		}
	}

	return ""
}

// listConditions returns the expressions that decide whether a block is used.
func listConditions(b *hclsyntax.Body) (out []hclsyntax.Expression) {
	for _, name := range []string{schema.When.Name, schema.ForEach.Name} {
		if a := b.Attributes[name]; a != nil {
			out = append(out, a.Expr)
		}
	}

	return out
}

// findVolatile returns a source of conditions that may have another value at the next boot: a gather stage, also
// through other stages, the node, or a file; "" if they have none.
func (in Guard) findVolatile(conditions ...hclsyntax.Expression) string {
	reached := in.Eval.Reach(conditions...)
	switch {
	case reached.Asks:
		return "a file or a credential of this machine"
	case reached.Node:
		return "the finished node"
	}

	for _, addr := range in.ListNeeded(reached.Stages) {
		i := in.Site.Stage(addr)
		if i != nil && i.Spec.Phase == schema.Gather {
			return "stage." + addr
		}
	}

	return ""
}

// isKubeletFile reports whether the kubelet reads the file of a `file` block when it starts, including
// its certificates and kubeconfigs.
func (in Guard) isKubeletFile(t tape.ManagedTarget) bool {
	isIdentity := path.Dir(t.Path) == "/etc/kubernetes" || hostfiles.Covers("/etc/kubernetes/pki", t.Path)
	isNotifying := slices.Contains(t.Notify, "restart "+in.Node.KubeletUnit())

	return isIdentity || isNotifying || hostfiles.IsReadByKubelet(in.Node, t.Path)
}

// CheckHasWriter refuses a site with a decide stage and without a stage that writes the result.
func CheckHasWriter(s *lang.Site) hcl.Diagnostics {
	if len(s.OfType(stages.Write)) > 0 {
		return nil
	}
	i := slices.IndexFunc(s.Stages, func(i *lang.Instance) bool {
		return i.Spec.Phase == schema.Decide
	})
	if i < 0 {
		return nil
	}

	return hcl.Diagnostics{RefuseNotWritten(
		s.Stages[i],
		"the site has no stage that writes them. Write stage \"write\" \"kubelet\" {}; "+
			"if a file of the site has it, check that the file exists and is not masked "+
			"by an empty file or a link to /dev/null",
	)}
}

// CheckNotified warns of a unit that nothing notifies: a run restarts it never.
func CheckNotified(s *lang.Site) hcl.Diagnostics {
	var found origin.Collector
	used := map[string]bool{}
	for _, i := range s.Stages {
		_ = hclsyntax.VisitAll(i.Body, func(n hclsyntax.Node) hcl.Diagnostics {
			x, ok := n.(*hclsyntax.LiteralValueExpr) // of static references: a list of names
			if ok && x.Val.Type().Equals(cty.List(cty.String)) {
				for _, name := range x.Val.AsValueSlice() {
					used["restart."+name.AsString()] = true
				}
			}
			return nil
		})
	}

	for _, i := range s.OfType("restart") {
		unit := i.Body.Attributes["unit"]
		if i.Addr() == stages.RestartKubelet || unit == nil || used[i.Addr()] {
			continue
		}
		found.Warn(
			fault.UnitMissing, i.Range, "Nothing notifies stage."+i.Addr(),
			"Its unit is never restarted. Write notify = [stage.%s] in the files that the unit reads, or remove the "+
				"stage.", i.Addr(),
		)
	}

	return found.Diags
}

// RefuseNotWritten returns the error for a decide stage whose result is not written.
func RefuseNotWritten(i *lang.Instance, why string) *hcl.Diagnostic {
	return origin.Error(
		fault.Conflict, i.Range, "No stage writes the kubelet's files",
		"stage.%s adds to them, and %s.", i.Addr(), why,
	)
}
