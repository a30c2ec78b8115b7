package boot

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/boot/blame"
	"github.com/prelet/prelet/internal/boot/hostfiles"
	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/origin"
	"github.com/prelet/prelet/internal/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// removal is the rule about the removal of the kubelet's own files.
type removal struct {
	checked  Checked
	eval     *eval.Eval
	node     node.Node
	isJoined bool
}

// check refuses a plan that removes or restores the kubelet's own files, unless the site leaves them out for good:
// a write stage exists, and its block, or the stage, has a `when` that is the same on every machine and at every
// boot. A kubelet must not lose its configuration because a layer was not deployed, a file was masked or an answer
// is missing today.
func (r removal) check(o Observed) (found Findings) {
	files, reasons := r.listRefused(o)
	if len(files) == 0 {
		return checkHasWriter(r.checked.site)
	}

	found.Error(
		fault.RemovalRefused, blame.FindWriter(r.checked.site), "The kubelet's own files would be removed",
		"Why: %s. So these would be removed or restored: %s. They stay, and nothing was changed. "+
			"Check that every file of the site exists (`prelet validate`). "+
			"To leave a file to others for good, write BLOCK { when = false } in stage \"write\"; "+
			"to undo all changes of prelet on this node, `prelet rollback 0`.",
		strings.Join(reasons, "; "), strings.Join(files, ", "),
	)

	return found
}

// listRefused returns the files that must stay, sorted, and the reasons.
func (r removal) listRefused(o Observed) (files, reasons []string) {
	isRead := map[string]bool{}
	for _, s := range o.undeclared {
		isRead[s.File.Path] = s.failure == nil
	}

	for _, t := range o.targets {
		// The bootstrap kubeconfig is not a change of the plan: it is removed when the node has joined.
		isRemoved := isRead[t.Path] || t.Purpose == "bootstrap-kubeconfig" && !r.isJoined
		reason := r.explain(t)
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
func (r removal) explain(t world.ManagedTarget) string {
	block := node.Block(t.Purpose)
	_, isMoved := r.node.FindPurpose(t.Purpose)
	if isMoved && t.Action == "delete" && r.isBelowDropIn(t) {
		return "layout = \"drop-in\" adds to " + t.Path + ", and prelet has made that file: " +
			"let the image or kubeadm make it, or use layout = \"file\""
	}
	isOfKubelet := block != "" || t.Purpose == "file" && r.isKubeletFile(t)
	if !isOfKubelet || block != "" && isMoved {
		return ""
	}

	all := r.checked.site.OfType(stages.Write)
	if len(all) == 0 {
		return "the site has no stage \"write\""
	}
	stage := all[0]
	if source := r.findVolatile(stage.When, stage.ForEach); source != "" {
		return fmt.Sprintf("the condition of stage.%s depends on %s", stage.Addr(), source)
	}
	if block == "" {
		return r.explainFile(stage, t.Path)
	}

	return r.explainBlock(stage, block)
}

// isBelowDropIn reports whether a file is the configuration that the planned drop-in adds to: the kubelet reads
// only drop-ins that end in .conf.
func (r removal) isBelowDropIn(t world.ManagedTarget) bool {
	return t.Purpose == "kubelet-config" && r.node.DropIn != "" && !strings.HasSuffix(t.Path, ".conf")
}

// explainBlock is explain for a file of one of the kubelet's four blocks.
func (r removal) explainBlock(stage *lang.Instance, block string) string {
	for _, b := range stage.Body.Blocks {
		if b.Type != block {
			continue
		}
		conditions := listConditions(b.Body)
		if source := r.findVolatile(conditions...); source != "" {
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
func (r removal) explainFile(stage *lang.Instance, path string) string {
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
		if source := r.findVolatile(listConditions(b.Body)...); source != "" {
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
func (r removal) findVolatile(conditions ...hclsyntax.Expression) string {
	reached := r.eval.Reach(conditions...)
	switch {
	case reached.Asks:
		return "a file or a credential of this machine"
	case reached.Node:
		return "the finished node"
	}

	for _, addr := range listNeeded(r.checked.needs, reached.Stages) {
		i := r.checked.site.Stage(addr)
		if i != nil && i.Spec.Phase == schema.Gather {
			return "stage." + addr
		}
	}

	return ""
}

// isKubeletFile reports whether the kubelet reads the file of a `file` block when it starts, including
// its certificates and kubeconfigs.
func (r removal) isKubeletFile(t world.ManagedTarget) bool {
	isIdentity := path.Dir(t.Path) == "/etc/kubernetes" || hostfiles.Covers("/etc/kubernetes/pki", t.Path)
	isNotifying := slices.Contains(t.Notify, "restart "+r.node.KubeletUnit())

	return isIdentity || isNotifying || hostfiles.IsReadByKubelet(r.node, t.Path)
}

// checkHasWriter refuses a site with a decide stage and without a stage that writes the result.
func checkHasWriter(s *lang.Site) (found Findings) {
	if len(s.OfType(stages.Write)) > 0 {
		return found
	}
	i := slices.IndexFunc(s.Stages, func(i *lang.Instance) bool {
		return i.Spec.Phase == schema.Decide
	})
	if i < 0 {
		return found
	}

	return newFindings(refuseNotWritten(
		s.Stages[i],
		"the site has no stage that writes them. Write stage \"write\" \"kubelet\" {}; "+
			"if a file of the site has it, check that the file exists and is not masked "+
			"by an empty file or a link to /dev/null",
	))
}

// checkNotified warns of a unit that nothing notifies: a run restarts it never.
func checkNotified(s *lang.Site) (found Findings) {
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

	return found
}

// refuseNotWritten returns the error for a decide stage whose result is not written.
func refuseNotWritten(i *lang.Instance, why string) *hcl.Diagnostic {
	return origin.Error(
		fault.Conflict, i.Range, "No stage writes the kubelet's files",
		"stage.%s adds to them, and %s.", i.Addr(), why,
	)
}
