package explain

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
)

// field finds a.b.c in a document. Keys may hold dots themselves: memory.available.
func field(doc map[string]any, name string) (keys []string, v any, ok bool) {
	for k, x := range doc {
		if k == name {
			return []string{k}, x, true
		}
		rest, found := strings.CutPrefix(name, k+".")
		if !found {
			continue
		}
		if m, isMap := x.(map[string]any); isMap {
			if keys, v, ok := field(m, rest); ok {
				return append([]string{k}, keys...), v, true
			}
		}
	}
	return nil, nil, false
}

func (w *walker) config(name string) (Explanation, bool) {
	keys, v, ok := field(w.plan.Node.Config, name)
	if !ok {
		return w.noField(name)
	}
	x := Explanation{Value: w.showGo(v), Whole: v, Present: true, TakesEffect: "restart"}
	if keys[0] == "registerWithTaints" {
		x.TakesEffect = "registration"
	}
	at := node.Pointer(keys)
	var inside []string
	for ptr, os := range w.plan.Node.ConfigOrigins {
		if ptr == at || strings.HasPrefix(at, ptr+"/") {
			x.Origins = append(x.Origins, os...)
			x.Range, x.Text = w.place(os)
			w.fieldChain(keys, ptr, os, 0)
		} else if strings.HasPrefix(ptr, at+"/") {
			inside = append(inside, ptr)
		}
	}
	slices.Sort(inside)
	for _, ptr := range inside {
		os := w.plan.Node.ConfigOrigins[ptr]
		r, text := w.place(os)
		x.Origins = append(x.Origins, os...)
		w.say(0, Step{Text: "config/" + dotted(ptr), Value: unlessSame(w.fieldValue(ptr), text), Note: strings.Join(refs(os), ", "), Range: r, Ref: "config/" + dotted(ptr)})
		w.fieldChain(splitPointer(ptr), ptr, os, 1)
	}
	if len(x.Origins) == 0 {
		x.Origins = []origin.Origin{{Kind: origin.Base, Role: origin.Value, Ref: "kubelet_config"}}
		w.say(0, Step{Kind: origin.Base, Text: "the base", Note: "nothing of the site changes it", Ref: "base"})
		w.baseText("kubelet_config", 1)
	} else if len(inside) > 0 && !w.covered(v, at) {
		w.say(0, Step{Kind: origin.Base, Text: "the rest of it", Note: "of the base", Ref: "base"})
		w.baseText("kubelet_config", 1)
	}
	w.replaced("config"+node.Pointer(keys), "The kubelet's "+strings.Join(keys, ".")+" of the base")
	return x, true
}

func refs(os []origin.Origin) (out []string) {
	for _, o := range os {
		if o.Role == origin.Value && o.Ref != "" && !slices.Contains(out, o.Ref) {
			out = append(out, o.Ref)
			break
		}
	}
	return out
}

// covered says whether everything inside of a value was set by stages.
func (w *walker) covered(v any, ptr string) bool {
	if _, ok := w.plan.Node.ConfigOrigins[ptr]; ok {
		return true
	}
	m, ok := v.(map[string]any)
	for k, x := range m {
		ok = ok && w.covered(x, ptr+"/"+world.EscapePointer(k))
	}
	return ok
}

func dotted(ptr string) string { return strings.Join(splitPointer(ptr), ".") }

func splitPointer(ptr string) []string {
	parts := strings.Split(strings.TrimPrefix(ptr, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

func (w *walker) fieldValue(ptr string) string {
	if _, v, ok := field(w.plan.Node.Config, dotted(ptr)); ok {
		return w.showGo(v)
	}
	return "(taken away)"
}

// fieldChain tells what set a field, or the one around it.
func (w *walker) fieldChain(keys []string, ptr string, os []origin.Origin, depth int) {
	if ptr == "/registerWithTaints" {
		for _, t := range w.plan.Node.Taints {
			w.say(depth, Step{Text: "taint/" + t.Key, Value: quote(t.String()), Ref: "taint/" + t.Key})
			w.taintChain(t, depth+1)
		}
		return
	}
	var p path
	for _, k := range keys {
		p = append(p, named(k))
	}
	w.setting("kubelet_config", "patch", p, os, depth)
}

// noField explains a field that the site takes away, and one that is left to the kubelet.
func (w *walker) noField(name string) (Explanation, bool) {
	for ptr, os := range w.plan.Node.ConfigOrigins {
		if dotted(ptr) != name {
			continue
		}
		x := Explanation{Origins: os, Summary: "The site takes it away: null in a merge patch removes the field of the base."}
		x.Range, x.Text = w.place(os)
		w.say(0, Step{Text: "null", Note: "takes the field of the base away", Range: x.Range})
		w.replaced("config"+ptr, "The kubelet's "+name+" of the base")
		return x, true
	}
	return w.unset(name)
}

func (w *walker) file(name string) (Explanation, bool) {
	for _, c := range fileChanges(w.plan) {
		if c.File.Path != name {
			continue
		}
		f := c.File
		x := Explanation{Value: purposeOf(f), Whole: purposeOf(f), Present: f.Kind != node.Missing, Origins: f.Origins}
		x.Range, x.Text = w.place(f.Origins)
		switch {
		case c.Action == "unread": // what follows it is not known either
		case slices.Contains(c.Notifies, w.plan.Restart.Unit):
			if c.Changes() {
				x.TakesEffect = "restart"
			}
		case len(c.Notifies) > 0:
			x.TakesEffect, x.Units = "unit", c.Notifies
		case f.Purpose == "file":
			x.TakesEffect = "reader"
		}
		s := Step{Text: "on disk", Note: join(actions[c.Action], c.Why, c.Drift), Ref: "file/" + name}
		w.ofTarget(&s, f)
		w.say(0, s)
		for _, name := range f.Text.Secrets() {
			w.secret(name, f)
		}
		w.fileChain(f)
		if !x.Present {
			x.Summary = "It is to be absent: " + c.Why + "."
		}
		return x, true
	}
	for _, b := range w.fileBlocks() { // one whose condition is false
		if x, ok := w.noFile(b.Body, b.Labels, name); ok {
			return x, true
		}
	}
	return Explanation{}, false
}

// fileChanges returns the changes of the plan and, with the action "unread", the files of the plan that it cannot compare.
func fileChanges(p *boot.Plan) []boot.Change {
	out := slices.Clone(p.Changes)
	for _, f := range p.Node.Files {
		if slices.Contains(p.Unjudged, f.Path) {
			out = append(out, boot.Change{File: f, Action: "unread"})
		}
	}
	return out
}

var actions = map[string]string{"unread": "known after boot: this recording was never asked", "create": "not there yet: it would be written", "update": "differs: it would be written", "delete": "it would be removed",
	"restore": "it would be put back as it was before prelet", "keep": "stays as it is", "none": "as planned"}

var purposes = map[string]string{"bootstrap-kubeconfig": "what the kubelet joins with", "ca": "the cluster's CA", "kubelet-config": "the kubelet's configuration",
	"kubelet-flags": "the kubelet's flags", "file": "a file of the site", "directory": "a folder of the site", "state": "a state file of the kubelet", "identity": "the identity of another machine"}

func purposeOf(f node.File) string {
	p := purposes[f.Purpose]
	if p == "" {
		p = "a file"
	}
	if len(f.Text.Secrets()) > 0 {
		p += " " + sensitive
	}
	return p
}

func (w *walker) ofTarget(s *Step, f node.File) {
	req := world.TargetReq{Path: f.Path, Secret: f.Purpose == "identity"}
	if len(f.Text.Secrets()) > 0 {
		req.Secret, req.Want = true, f.Text.Template()
	}
	q := world.Target.Question(req)
	if a, ok := w.answered(q); ok {
		q.Args = world.Target.Question(world.TargetReq{Path: f.Path, Secret: req.Secret}).Args // the planned text is long, and has placeholders
		s.Answer = answerTo(q, a, "")
	}
}

// fileChain tells what a file is made of.
func (w *walker) fileChain(f node.File) {
	switch f.Purpose {
	case "kubelet-config":
		w.say(0, Step{Kind: origin.Base, Text: "base", Note: "what the node has before decide adds to it", Ref: "base"})
		w.baseText("kubelet_config", 1)
		for _, s := range w.plan.Node.Settings {
			r, _ := w.place(s.Origins)
			w.say(0, Step{Text: "config/" + dotted(s.Pointer()), Value: w.fieldValue(s.Pointer()), Note: strings.Join(refs(s.Origins), ""), Range: r, Ref: "config/" + dotted(s.Pointer())})
		}
	case "kubelet-flags":
		w.say(0, Step{Kind: origin.Base, Text: "base", Note: "every flag in it stays as it is unless the site changes it", Ref: "base"})
		w.baseText("kubelet_flags", 1)
		for _, fl := range w.plan.Node.Flags {
			if r, _ := w.place(fl.Origins); r.Filename != "" {
				w.say(0, Step{Text: "flag/" + fl.Name, Value: quote(fl.Value), Range: r, Ref: "flag/" + fl.Name})
			}
		}
		for _, l := range w.plan.Node.Labels {
			r, _ := w.place(l.Origins)
			w.say(0, Step{Text: "label/" + l.Key, Value: quote(l.Value), Range: r, Ref: "label/" + l.Key})
		}
	case "ca":
		w.authority("ca_certificate", "content")
	case "bootstrap-kubeconfig":
		w.authority("bootstrap_kubeconfig", "ca")
	default:
		w.siteFile(f)
	}
	if i := w.writer(); i != nil {
		w.overrides(i.Addr(), "file", "directory", "kubelet_config", "kubelet_flags", "ca_certificate", "bootstrap_kubeconfig")
	}
}

// secret tells of a credential in a file by its name; of the one to join with also where the site names it.
func (w *walker) secret(name string, f node.File) {
	s := Step{Text: "credential " + name, Value: sensitive, Note: "stands in it; only the node has its bytes", Ref: name}
	if b := w.plan.Site.Cluster; b != nil && b.Attributes["token"] != nil && f.Purpose == "bootstrap-kubeconfig" {
		s.Range = b.Attributes["token"].Expr.Range()
	}
	q := world.Credential.Question(world.CredentialReq{Name: name})
	if a, ok := w.answered(q); ok {
		s.Answer = answerTo(q, a, "")
	}
	w.say(0, s)
}

// authority tells the cluster's CA: what the site wrote, or that of the only fetch-ca.
func (w *walker) authority(block, argument string) {
	if x := w.written(block, argument); x != nil {
		f := w.frameOf(x, cty.NilVal, source{})
		v, note := w.at(x, f, nil)
		w.say(0, Step{Text: argument + " = " + w.text(x), Value: v, Note: note, Range: x.Range()})
		w.walk(x, f, nil, 1)
		return
	}
	s := Step{Kind: origin.Object, Text: "the cluster's CA", Ref: "trust"}
	for _, i := range w.plan.Site.OfType("fetch-ca") {
		s.Text, s.Ref, s.Range = "stage."+i.Addr()+".pem", "stage."+i.Addr(), i.Range
	}
	w.ofKind(&s, world.KindTrust, "/pem")
	w.say(0, s)
}

// siteFile walks path and content of the block behind a file, and the condition that it is there for.
func (w *walker) siteFile(f node.File) {
	for _, b := range w.fileBlocks() {
		when, forEach := b.Body.Attributes["when"], b.Body.Attributes["for_each"]
		for _, c := range w.blockCopies(b) {
			p := b.Body.Attributes["path"]
			if p == nil {
				continue
			}
			fr := c.frame(w, p.Expr)
			v, _ := w.value(p.Expr, fr)
			u, _, _ := value.Plain(v)
			if !u.IsKnown() || u.IsNull() || u.Type() != cty.String || u.AsString() != f.Path {
				continue
			}
			whose := b.Type + " \"" + strings.Join(b.Labels, " ") + "\""
			w.say(0, Step{Text: whose, Note: "of stage." + w.writer().Addr(), Range: b.DefRange(), Ref: "write." + b.Type})
			for _, n := range []string{"path", "content"} {
				if a := b.Body.Attributes[n]; a != nil {
					fr := c.frame(w, a.Expr)
					got, note := w.at(a.Expr, fr, nil)
					w.say(1, Step{Text: n + " = " + w.text(a.Expr), Value: unlessSame(got, w.text(a.Expr)), Note: note, Range: a.Expr.Range()})
					w.walk(a.Expr, fr, nil, 2)
				}
			}
			if when != nil {
				w.condition(when.Expr, whose, 1)
			}
			if forEach != nil {
				fr := w.frameOf(forEach.Expr, cty.NilVal, source{})
				got, note := w.at(forEach.Expr, fr, nil)
				w.say(1, Step{Text: "for_each = " + w.text(forEach.Expr), Value: got, Note: note, Range: forEach.Expr.Range()})
			}
			return
		}
	}
}

// noFile explains a file whose block is left out.
func (w *walker) noFile(body *hclsyntax.Body, labels []string, name string) (Explanation, bool) {
	p, when := body.Attributes["path"], body.Attributes["when"]
	if p == nil || when == nil {
		return Explanation{}, false
	}
	v, d := w.value(p.Expr, w.frameOf(p.Expr, cty.NilVal, source{}))
	u, _, _ := value.Plain(v)
	if d != nil || !u.IsKnown() || u.IsNull() || u.Type() != cty.String || u.AsString() != name {
		return Explanation{}, false
	}
	whose := "block \"" + strings.Join(labels, " ") + "\""
	if w.condition(when.Expr, whose, 0) {
		return Explanation{}, false
	}
	return Explanation{Summary: "The site does not want it here: its condition is not true.", Range: p.SrcRange}, true
}
