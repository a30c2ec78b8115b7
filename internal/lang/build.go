package site

import (
	"fmt"
	"slices"
	"strings"

	version "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/schema"
)

// build checks the definitions, overrides applied, and makes the site of them.
func (l *loader) build() {
	for _, d := range l.order {
		meta := hclsyntax.Attributes{}
		if d.typ != nil {
			l.checkMeta(d)
			d.body, meta = splitMeta(d)
		}
		l.add(d.schema.Check(d.body, metaNames(d.typ)...)...)
		l.add(constants(d.schema, d.body)...)
		l.resolveRefs(d.schema, d.body)
		switch d.block.Type {
		case schema.PreletBlock.Type:
			l.site.Prelet = d.body
			l.requiredVersion(d.body)
		case schema.ClusterBlock.Type:
			l.site.Cluster = d.body
			l.cluster(d)
		case schema.NodeBlock.Type:
			l.site.Node = d.body
		case schema.VariableBlock.Type:
			l.variable(d)
		case schema.DetectorBlock.Type:
			name := d.block.Labels[0]
			l.site.Detectors[name] = &Detector{Name: name, Body: freeBlocks(d.body, d.schema), Range: d.block.DefRange()}
		case schema.StageBlock.Type:
			l.stage(d, meta)
		}
	}
}

func (l *loader) stage(d *definition, meta hclsyntax.Attributes) {
	i := &Instance{Type: d.block.Labels[0], Name: d.block.Labels[1], Stage: d.typ.stage, Spec: d.typ.spec,
		Body: freeBlocks(d.body, d.schema), OnFailure: "fail", Range: d.block.DefRange()}
	if a := meta[schema.When.Name]; a != nil {
		i.When = a.Expr
	}
	if a := meta[schema.ForEach.Name]; a != nil {
		i.ForEach = a.Expr
	}
	if a := meta[schema.Timeout.Name]; a != nil {
		i.Timeout = a.Expr
	}
	if a := meta[schema.OnFailure.Name]; a != nil {
		l.add(constants(schema.Block{Fields: []schema.Field{schema.OnFailure}}, &hclsyntax.Body{Attributes: meta})...)
		if v, ok := l.constant(schema.OnFailure, a); ok {
			i.OnFailure = v
		}
	}
	l.site.Stages = append(l.site.Stages, i)
}

// metaNames are the arguments that a stage of a type takes beside its own.
func metaNames(t *stageType) []string {
	if t == nil {
		return nil
	}
	names := []string{schema.When.Name}
	if t.spec.ForEach {
		names = append(names, schema.ForEach.Name)
	}
	if t.spec.Timeout > 0 || t.spec.Bounds != nil {
		names = append(names, schema.Timeout.Name)
	}
	if t.spec.Phase == schema.Gather {
		names = append(names, schema.OnFailure.Name)
	}
	return names
}

// checkMeta refuses the arguments of all stages where this type does not take them, and says who does.
func (l *loader) checkMeta(d *definition) {
	if d.typ == nil {
		return
	}
	takers := map[string]string{
		schema.ForEach.Name:   "fetch-config, label, taint and the blocks of write take it",
		schema.Timeout.Name:   "stages that gather and restart take it; what decides or renders files cannot wait",
		schema.OnFailure.Name: "stages that gather take it; what decides or renders is a function, and fails the same way each time",
	}
	allowed := metaNames(d.typ)
	for _, a := range attributes(d.body) {
		who, meta := takers[a.Name]
		if _, own := d.schema.Field(a.Name); own || !meta || slices.Contains(allowed, a.Name) {
			continue
		}
		l.errorf(fault.UnknownArgument, a.NameRange, fmt.Sprintf("A %s stage takes no %s", d.typ.spec.Type, a.Name), "%s. Remove it.", who)
	}
}

// splitMeta takes the arguments of all stages out of a body. Those that the type does not take were reported.
func splitMeta(d *definition) (*hclsyntax.Body, hclsyntax.Attributes) {
	body := *d.body
	body.Attributes = hclsyntax.Attributes{}
	meta := hclsyntax.Attributes{}
	for n, a := range d.body.Attributes {
		body.Attributes[n] = a
		if _, own := d.schema.Field(n); own {
			continue
		}
		switch n {
		case schema.When.Name, schema.ForEach.Name, schema.Timeout.Name, schema.OnFailure.Name:
			meta[n] = a
			delete(body.Attributes, n)
		}
	}
	return &body, meta
}

// requiredVersion checks prelet.required_version.
func (l *loader) requiredVersion(body *hclsyntax.Body) {
	a := body.Attributes[schema.RequiredVersion.Name]
	if a == nil {
		return
	}
	text, ok := l.constant(schema.RequiredVersion, a)
	if !ok {
		return
	}
	c, err := version.NewConstraint(text)
	if err != nil {
		l.errorf(fault.RequiredVersion, a.Expr.Range(), "This is no version constraint", "%q: write one as \">= 0.1\", or \">= 0.1, < 2.0\".", text)
		return
	}
	have, err := version.NewVersion(l.opts.Version)
	if err != nil {
		return // a build that does not know its version cannot be too old
	}
	if !c.Check(have.Core()) { // a build before 0.2.0 may be used for what needs 0.2
		l.errorf(fault.RequiredVersion, a.Expr.Range(), "This site needs another prelet", "It asks for %s, and this is %s. Install a version that fits, or change required_version.", text, l.opts.Version)
	}
}

// cluster checks what only several arguments together can be: why the cluster is believed.
func (l *loader) cluster(d *definition) {
	var trust []*hclsyntax.Attribute
	for _, a := range attributes(d.body) {
		switch a.Name {
		case schema.CACertHashes.Name, schema.CAFile.Name, schema.Discovery.Name, schema.TrustBy.Name:
			if !null(a.Expr) {
				trust = append(trust, a)
			}
		}
	}
	switch {
	case len(trust) == 0:
		l.errorf(fault.MissingArgument, d.block.DefRange(), "Why shall this cluster be believed?",
			"A cluster block has one of ca_cert_hashes, ca_file, discovery_file, trust. The pin for ca_cert_hashes is what `kubeadm token create --print-join-command` prints as --discovery-token-ca-cert-hash.")
	case len(trust) > 1:
		l.errorf(fault.Duplicate, trust[1].NameRange, fmt.Sprintf("Both %s and %s", trust[0].Name, trust[1].Name),
			"A cluster is believed for one reason: one of ca_cert_hashes, ca_file, discovery_file, trust. The first is at %s. Remove one; in an override, set the other to null.", place(trust[0].NameRange))
	}
	token := d.body.Attributes[schema.Token.Name]
	if (token == nil || null(token.Expr)) && len(trust) == 1 && trust[0].Name == schema.TrustBy.Name {
		l.errorf(fault.MissingArgument, trust[0].NameRange, "Trust by token, and no token", "The token is the only proof of such a cluster: write token = credential(\"NAME\"), or believe it for another reason (ca_cert_hashes).")
	}
}

// token checks a cluster block's token where it is written, also where an override replaces it: it would be in every
// recording all the same.
func (l *loader) token(body *hclsyntax.Body) {
	token := body.Attributes[schema.Token.Name]
	if token == nil || null(token.Expr) || credentialCall(token.Expr) {
		return
	}
	l.hide(token.Expr.Range())
	l.errorf(fault.Sensitive, token.Expr.Range(), "A token is credential(\"NAME\") and nothing else",
		"The site's text stands in every recording, so the token cannot stand in it. Write token = credential(\"bootstrap-token\"), and give the credential with LoadCredential= or LoadCredentialEncrypted=.")
}

func credentialCall(e hclsyntax.Expression) bool {
	call, ok := e.(*hclsyntax.FunctionCallExpr)
	if !ok || call.Name != "credential" || len(call.Args) != 1 || call.ExpandFinal {
		return false
	}
	t, ok := call.Args[0].(*hclsyntax.TemplateExpr)
	return ok && t.IsStringLiteral()
}

// constant reads an argument that is a literal of a type; constants has reported what is none.
func (l *loader) constant(attr interface{ Spec() schema.Spec }, a *hclsyntax.Attribute) (string, bool) {
	v, ok := l.literalValue(attr.Spec(), a)
	if !ok || v.IsNull() {
		return "", false
	}
	return v.AsString(), true
}

// literalValue converts a literal to the type that its declaration says and applies its rule.
func (l *loader) literalValue(s schema.Spec, a *hclsyntax.Attribute) (cty.Value, bool) {
	if !literal(a.Expr) {
		return cty.NilVal, false
	}
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		l.add(origin.WithCode(diags, fault.WrongType)...)
		return cty.NilVal, false
	}
	v, err := convert.Convert(v, s.Type)
	if err == nil && !v.IsNull() {
		err = s.CheckValue(v)
	}
	if err != nil {
		l.errorf(fault.WrongType, a.Expr.Range(), "Wrong value for "+s.Name, "%s. %s", strings.TrimSuffix(err.Error(), "."), s.Doc)
		return cty.NilVal, false
	}
	return v, true
}
