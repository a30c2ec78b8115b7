package lang

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	version "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/functions"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/schema"
)

// build checks the definitions with overrides applied, and adds them to the site.
func (l *loader) build() {
	for _, d := range l.order {
		var meta hclsyntax.Attributes
		d.body, meta = l.splitMeta(d)
		before := len(l.Diags)
		l.Report(d.schema.Check(d.body, l.language(), metaNames(d.typ)...)...)
		l.Report(CheckConstants(d.schema, d.body)...)
		l.resolveRefs(d.schema, d.body)

		switch d.block.Type {
		case schema.PreletBlock.Type:
			l.site.Prelet = d.body
			l.checkRequiredVersion(d.body)
		case schema.ClusterBlock.Type:
			l.site.Cluster = d.body
			l.checkTrust(d)
		case schema.NodeBlock.Type:
			l.site.Node = d.body
		case schema.DeliveryBlock.Type:
			l.checkLiterals(d.schema, d.body)
			if !l.Diags[before:].HasErrors() { // else it is not known where the node pulls its site
				l.site.Delivery = d.body
			}
		case schema.VariableBlock.Type:
			l.addVariable(d)
		case schema.DetectorBlock.Type:
			name := d.block.Labels[0]
			l.site.Detectors[name] = &Detector{
				Name:  name,
				Body:  d.body,
				Range: d.block.DefRange(),
			}
		case schema.StageBlock.Type:
			l.addStage(d, meta)
		}
	}
}

func (l *loader) addStage(d *definition, meta hclsyntax.Attributes) {
	i := &Instance{
		Type:      d.block.Labels[0],
		Name:      d.block.Labels[1],
		Stage:     d.typ.stage,
		Spec:      d.typ.spec,
		Body:      d.body,
		OnFailure: "fail",
		Range:     d.block.DefRange(),
	}

	for name, expr := range map[string]*hclsyntax.Expression{
		schema.When.Name:    &i.When,
		schema.ForEach.Name: &i.ForEach,
		schema.Timeout.Name: &i.Timeout,
	} {
		if a := meta[name]; a != nil {
			*expr = a.Expr
		}
	}

	if a := meta[schema.OnFailure.Name]; a != nil {
		declared := schema.Block{Fields: []schema.Field{schema.OnFailure}}
		l.Report(CheckConstants(declared, &hclsyntax.Body{Attributes: meta})...)
		if v, ok := l.constant(schema.OnFailure, a); ok {
			i.OnFailure = v
		}
	}

	l.site.Stages = append(l.site.Stages, i)
}

// metaNames returns the arguments that a stage of a type takes in addition to its own.
func metaNames(t *stageType) (names []string) {
	if t == nil {
		return nil
	}
	for _, f := range t.spec.Meta() {
		names = append(names, f.Spec().Name)
	}

	return names
}

// describeForEach returns which stage types take for_each, and which have blocks that do.
func (l *loader) describeForEach() string {
	var types, blocks []string
	for _, name := range slices.Sorted(maps.Keys(l.types)) {
		spec := l.types[name].spec
		if spec.ForEach {
			types = append(types, name)
		}
		if slices.ContainsFunc(spec.Blocks, func(b schema.Block) bool { return b.ForEach }) {
			blocks = append(blocks, name)
		}
	}

	return strings.Join(types, ", ") + " and blocks of " + strings.Join(blocks, ", ") + " take it"
}

// splitMeta moves the arguments that stages take in addition to their own out of a body, and refuses those that only
// other types take.
func (l *loader) splitMeta(d *definition) (*hclsyntax.Body, hclsyntax.Attributes) {
	if d.typ == nil {
		return d.body, nil
	}

	reasons := map[string]string{
		schema.When.Name:      "",
		schema.ForEach.Name:   "",
		schema.Timeout.Name:   "stages that gather and restart take it; other stages do not wait",
		schema.OnFailure.Name: "stages that gather take it; other stages fail the same way each time",
	}
	body := *d.body
	body.Attributes = maps.Clone(d.body.Attributes)
	meta := hclsyntax.Attributes{}
	for _, a := range listAttributes(d.body) {
		reason, isMeta := reasons[a.Name]
		_, isOwn := d.schema.Field(a.Name)
		if !isMeta || isOwn {
			continue
		}

		meta[a.Name] = a
		delete(body.Attributes, a.Name)
		if !slices.Contains(metaNames(d.typ), a.Name) {
			if a.Name == schema.ForEach.Name {
				reason = l.describeForEach()
			}
			summary := fmt.Sprintf("A %s stage takes no %s", d.typ.spec.Type, a.Name)
			l.Error(fault.UnknownArgument, a.NameRange, summary, "%s. Remove it.", reason)
		}
	}

	return &body, meta
}

// checkRequiredVersion checks prelet.required_version.
func (l *loader) checkRequiredVersion(body *hclsyntax.Body) {
	a := body.Attributes[schema.RequiredVersion.Name]
	if a == nil {
		return
	}
	text, ok := l.constant(schema.RequiredVersion, a)
	if !ok {
		return
	}

	constraint, err := version.NewConstraint(text)
	if err != nil {
		l.Error(fault.RequiredVersion, a.Expr.Range(), "Invalid version constraint",
			"%q: write for example \">= 0.1\", or \">= 0.1, < 2.0\".", text)

		return
	}

	own, err := version.NewVersion(l.opts.Version)
	if err != nil {
		return // a development build has no version to compare
	}
	if !constraint.Check(own.Core()) { // 0.2.0-dev satisfies >= 0.2
		l.Error(
			fault.RequiredVersion,
			a.Expr.Range(),
			"This site needs another prelet",
			"It requires %s, and this is %s. Install a matching version, or change required_version.",
			text,
			l.opts.Version,
		)
	}
}

// checkTrust checks that the cluster block has exactly one reason to trust the cluster.
func (l *loader) checkTrust(d *definition) {
	var trust []*hclsyntax.Attribute
	names := []string{
		schema.CACertHashes.Name,
		schema.CAFile.Name,
		schema.Discovery.Name,
		schema.TrustBy.Name,
	}
	for _, a := range listAttributes(d.body) {
		if slices.Contains(names, a.Name) && !isNull(a.Expr) {
			trust = append(trust, a)
		}
	}

	switch len(trust) {
	case 0:
		l.Error(fault.MissingArgument, d.block.DefRange(), "No reason to trust this cluster",
			"Write one of ca_cert_hashes, ca_file, discovery_file, trust. "+
				"`kubeadm token create --print-join-command` prints the pin for ca_cert_hashes as "+
				"--discovery-token-ca-cert-hash.")
	case 1:
		token := d.body.Attributes[schema.Token.Name]
		hasToken := token != nil && !isNull(token.Expr)
		if trust[0].Name == schema.TrustBy.Name && !hasToken {
			l.Error(
				fault.MissingArgument,
				trust[0].NameRange,
				"Trust by token without a token",
				"The token is the only proof of such a cluster: write token = credential(\"NAME\"), "+
					"or use another reason (ca_cert_hashes).",
			)
		}
	default:
		l.Error(
			fault.Duplicate,
			trust[1].NameRange,
			fmt.Sprintf("Both %s and %s", trust[0].Name, trust[1].Name),
			"A cluster has one reason for trust: ca_cert_hashes, ca_file, discovery_file or trust. "+
				"The first is at %s. Remove one; in an override, set the other to null.",
			origin.Place(trust[0].NameRange),
		)
	}
}

// checkToken checks a token where it is written, also if an override replaces it: recordings contain the whole text.
func (l *loader) checkToken(body *hclsyntax.Body) {
	token := body.Attributes[schema.Token.Name]
	if token == nil || isNull(token.Expr) {
		return
	}
	if _, isCredential := functions.CredentialName(token.Expr); isCredential {
		return
	}

	l.hide(token.Expr.Range())
	l.Error(fault.Sensitive, token.Expr.Range(), "A token must be credential(\"NAME\")",
		"Recordings contain the site's text, so the token cannot be in it. "+
			"Write token = credential(\"bootstrap-token\"), and provide the credential with LoadCredential= "+
			"or LoadCredentialEncrypted=.")
}

// constant returns the text of a literal; false for null and for an argument that was reported.
func (l *loader) constant(attr schema.Field, a *hclsyntax.Attribute) (string, bool) {
	v, ok := l.literalValue(attr.Spec(), a)
	if !ok || v.IsNull() {
		return "", false
	}

	return v.AsString(), true
}

// checkLiterals checks the values of a block that nothing evaluates, and of its inner blocks: all are literals.
func (l *loader) checkLiterals(b schema.Block, body *hclsyntax.Body) {
	for _, a := range listAttributes(body) {
		if f, ok := b.Field(a.Name); ok {
			l.literalValue(f, a)
		}
	}
	for _, x := range body.Blocks {
		if n, ok := b.Find(x.Type); ok {
			l.checkLiterals(n, x.Body)
		}
	}
}

// literalValue converts a literal to its declared type and checks it; false for an argument that was reported.
func (l *loader) literalValue(s schema.Spec, a *hclsyntax.Attribute) (cty.Value, bool) {
	if !isLiteral(a.Expr) {
		return cty.NilVal, false
	}

	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		l.Report(origin.WithCode(diags, fault.WrongType)...)
		return cty.NilVal, false
	}

	v, err := convert.Convert(v, s.Type)
	if err == nil && !v.IsNull() {
		err = s.CheckValue(v)
	}
	if err != nil {
		l.Error(fault.WrongType, a.Expr.Range(), "Wrong value for "+s.Name,
			"%s. %s", strings.TrimSuffix(err.Error(), "."), s.Doc)

		return cty.NilVal, false
	}

	return v, true
}
