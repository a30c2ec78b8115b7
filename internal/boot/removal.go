package boot

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/eval"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

// removal is what the rule about the kubelet's own files looks at.
type removal struct {
	checked Checked
	eval    *eval.Eval
	node    node.Node
	joined  bool
}

// refuse refuses a plan that removes or restores the kubelet's own files, unless the site leaves them out for good: a
// write stage exists, and its block, or the stage, has a `when` that is the same on every machine and at every boot. A
// layer that was not deployed, a masked file or an answer that is missing today must not take its configuration from a
// kubelet.
func (r removal) refuse(o Observed, changes []Change) (found Findings) {
	var files, reasons []string
	notified := map[string][]string{}
	for _, t := range o.targets {
		notified[t.Path] = t.Notify
	}

	note := func(path, purpose, action string) {
		if reason := r.explain(path, purpose, action, notified[path]); reason != "" && (action == "delete" || action == "restore") {
			files = append(files, path)
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}

	for _, c := range changes {
		if c.File.Kind == node.Missing {
			note(c.File.Path, c.File.Purpose, c.Action)
		}
	}
	for _, t := range o.targets { // no change of the plan: it goes when the node has joined
		if t.Purpose == "bootstrap-kubeconfig" && !r.joined {
			note(t.Path, t.Purpose, t.Action)
		}
	}

	if len(files) == 0 {
		found.report(checkNowhere(r.checked.site)...)
		return found
	}

	at := hcl.Range{}
	if all := r.checked.site.OfType("write"); len(all) > 0 {
		at = all[0].Range
	}
	slices.Sort(files)
	found.report(origin.Error(fault.RemovalRefused, at, "The kubelet's own files would go",
		"Why: %s. So these would be removed or restored: %s. They stay, and nothing was changed. See that every file of the site is there (`prelet validate`). To leave "+
			"a file to others for good, write BLOCK { when = false } in stage \"write\"; to undo what prelet wrote on this "+
			"node, `prelet rollback 0`.", strings.Join(reasons, "; "), strings.Join(files, ", ")))

	return found
}

// explain returns why a file of the kubelet must stay; "" where it may go, or is not the kubelet's. notified is what the
// generation in place says of the file: "restart UNIT".
func (r removal) explain(path, purpose, action string, notified []string) string {
	block := map[string]string{
		"kubelet-config": "kubelet_config", "kubelet-flags": "kubelet_flags", "ca": "ca_certificate",
		"bootstrap-kubeconfig": "bootstrap_kubeconfig",
	}[purpose]
	isMoved := slices.ContainsFunc(r.node.Files, func(f node.File) bool { return f.Purpose == purpose })
	// The kubelet reads only drop-ins that end in .conf: another one is the file that they add to.
	isBeneath := purpose == "kubelet-config" && r.node.DropIn != "" && !strings.HasSuffix(path, ".conf")
	switch {
	case isBeneath && isMoved && action == "delete":
		return "layout = \"drop-in\" adds to " + path + ", and prelet has made that: let the image or kubeadm make it, or use layout = \"file\""
	case block == "" && (purpose != "file" || !r.isKubelets(path, notified)), block != "" && isMoved:
		return ""
	}

	all := r.checked.site.OfType("write")
	if len(all) == 0 {
		return "the site has no stage \"write\""
	}
	i := all[0]
	if by := r.findAsked(i.When, i.ForEach); by != "" {
		return fmt.Sprintf("stage.%s is there or not by %s", i.Addr(), by)
	}

	if block == "" {
		return r.explainFile(i, path)
	}

	for _, b := range i.Body.Blocks {
		if b.Type != block {
			continue
		}
		if by := r.findAsked(r.conditions(b.Body)...); by != "" {
			return fmt.Sprintf("%s is there or not by %s", block, by)
		}
		if len(r.conditions(b.Body)) > 0 {
			return ""
		}
	}
	if i.When != nil {
		return ""
	}

	return "the site has nothing to write for " + block
}

// explainFile is explain for a drop-in of the kubelet, which is a `file` block of the site. One that the site does not
// have any more may go.
func (r removal) explainFile(i *site.Instance, path string) string {
	for _, b := range i.Body.Blocks {
		a := b.Body.Attributes["path"]
		if b.Type != "file" || a == nil {
			continue
		}
		if v, diags := a.Expr.Value(nil); !diags.HasErrors() && !isText(v, path) {
			continue
		}
		if by := r.findAsked(r.conditions(b.Body)...); by != "" {
			return fmt.Sprintf("file %q is there or not by %s", b.Labels[0], by)
		}
	}

	return ""
}

// isText reports whether a constant is a text, or may become it.
func isText(v cty.Value, text string) bool {
	return !v.IsKnown() || v.Type() == cty.String && !v.IsNull() && v.AsString() == text
}

// conditions returns the expressions that decide whether a block is there.
func (r removal) conditions(b *hclsyntax.Body) (out []hclsyntax.Expression) {
	for _, name := range []string{schema.When.Name, schema.ForEach.Name} {
		if a := b.Attributes[name]; a != nil {
			out = append(out, a.Expr)
		}
	}

	return out
}

// findAsked returns what a condition asks that may be answered otherwise at the next boot: a gather stage, also through
// others, the node, or a file. "": it asks nothing.
func (r removal) findAsked(xs ...hclsyntax.Expression) string {
	reached := r.eval.Reach(xs...)
	switch {
	case reached.Asks:
		return "a file or a credential of this machine"
	case reached.Node:
		return "the finished node"
	}

	seen := map[string]bool{}
	queue := slices.Clone(reached.Stages)
	for len(queue) > 0 {
		addr := queue[0]
		queue = queue[1:]
		if i := r.checked.site.Stage(addr); i != nil && i.Spec.Phase == schema.Gather {
			return "stage." + addr
		}
		if !seen[addr] {
			seen[addr] = true
			queue = append(queue, r.checked.needs[addr]...)
		}
	}

	return ""
}

// isKubelets reports whether a `file` block has written what the kubelet reads when it starts: its configuration,
// flags, certificates and kubeconfigs too, in a site that makes them itself.
func (r removal) isKubelets(file string, notified []string) bool {
	unit := "kubelet.service"
	if a := r.node.Activation; a != nil {
		unit = a.Unit
	}

	isIdentity := path.Dir(file) == "/etc/kubernetes" || covers("/etc/kubernetes/pki", file)

	return isIdentity || slices.Contains(notified, "restart "+unit) || isReadByKubelet(r.node, unit, file)
}

// checkNowhere refuses a site that decides something and has no stage that writes it.
func checkNowhere(s *site.Site) hcl.Diagnostics {
	if len(s.OfType("write")) > 0 {
		return nil
	}

	i := slices.IndexFunc(s.Stages, func(i *site.Instance) bool { return i.Spec.Phase == schema.Decide })
	if i < 0 {
		return nil
	}

	return hcl.Diagnostics{origin.Error(fault.Conflict, s.Stages[i].Range, "What the site decides has nowhere to go",
		"stage.%s adds to the kubelet's files, and no stage writes them. Write stage \"write\" \"kubelet\" {}; if a file of the "+
			"site has it, see that it is there and not masked by an empty file or a link to /dev/null.", s.Stages[i].Addr())}
}
