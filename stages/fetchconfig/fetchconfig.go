// Package fetchconfig is the stage that fetches configuration: a ConfigMap of the cluster, or a file of the node.
package fetchconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	configMap = schema.Attr[string]{Name: "config_map", Doc: "`NAMESPACE/NAME`. Read with the bootstrap token, or with kubelet.conf on a node that has joined.", Check: checkConfigMap}
	file      = schema.Attr[string]{Name: "file", Doc: "A file of the node, YAML or JSON. Its name may depend on other gather stages.", Check: checkFile}
	optional  = schema.Attr[bool]{Name: "optional", Doc: "Whether it may be missing: then `data` is empty and `value` is null.", Default: false}
	wait      = schema.Attr[string]{Name: "wait", Doc: "How long to wait for a `file` that something else writes during boot, inside the stage's `timeout`. With `optional`, a file that has not come by then may be missing.", Check: schema.Duration}
)

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{Phase: schema.Gather, ForEach: true, Timeout: 3 * time.Minute, Block: schema.Block{Type: "fetch-config",
		Doc:    "Fetches configuration: `config_map` or `file`. `data` is a ConfigMap's (empty for a file), `value` a file parsed as YAML (null for a ConfigMap).",
		Fields: []schema.Field{configMap, file, optional, wait}}}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{"data": cty.Map(cty.String), "value": cty.DynamicPseudoType, "resource_version": cty.String})
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	cm, f := configMap.Of(cfg), file.Of(cfg)
	switch {
	case cm.Null() && f.Null() && in.Facts == nil: // with facts it is one machine that has nothing to fetch
		at := cfg.Range
		for _, v := range []schema.Value[string]{cm, f} {
			if v.Expr != nil && (at == cfg.Range || len(v.Expr.Variables()) > 0) {
				at = v.Range
			}
		}
		return hcl.Diagnostics{origin.Error(fault.MissingArgument, at, "Nothing to fetch", "Write config_map = \"NAMESPACE/NAME\" or file = \"/PATH\". Null is like not written; for machines that need neither, leave the stage out: when = …")}
	case cm.Set() && f.Set():
		return hcl.Diagnostics{origin.Error(fault.Conflict, f.Range, "config_map and file together", "One stage fetches one thing: declare two stages.")}
	case cm.Set() && wait.Of(cfg).Set():
		return hcl.Diagnostics{origin.Error(fault.Conflict, wait.Of(cfg).Range, "config_map and wait together", "wait is for a file. How long the cluster is asked again is `retry` in the cluster block.")}
	case cm.Set():
		return stages.RequireCluster(cfg.Range, in.NoCluster)
	}
	return nil
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(ctx context.Context, cfg schema.Body, env stages.Env, r world.Source) (stages.Output, hcl.Diagnostics) {
	if d := s.Check(cfg, stages.Inputs{NoCluster: env.Cluster.Filename == ""}); d.HasErrors() {
		return stages.Output{}, d
	}
	cm, f := configMap.Of(cfg), file.Of(cfg)
	switch {
	case cm.Set():
		return s.object(ctx, cfg, cm, env, r)
	case f.Set():
		return s.file(ctx, cfg, f, r)
	}
	return stages.Output{Value: value.UnknownOutput(s.Outputs(stages.Declared{}))}, nil
}

func (s Stage) object(ctx context.Context, cfg schema.Body, cm schema.Value[string], env stages.Env, r world.Source) (stages.Output, hcl.Diagnostics) {
	ns, name, _ := strings.Cut(cm.V, "/")
	a, ans, err := world.Object.Ask(ctx, r, world.ObjectReq{Access: env.Access, Namespace: ns, Name: name, Optional: optional.Of(cfg).V})
	switch {
	case ans.Code() == fault.Unread:
		what := "ConfigMap " + cm.V
		return stages.Unanswered(s.Outputs(stages.Declared{}), what, ans), stages.ClusterFailure(cm.Range, what, ans.Fault)
	case ans.Code() == fault.Absent && optional.Of(cfg).V:
		return stages.Output{Value: value.Absent(s.Outputs(stages.Declared{}))}, nil
	case err != nil:
		return stages.Output{}, stages.ClusterFailure(cm.Range, "ConfigMap "+cm.V, ans.Fault)
	}
	var diags hcl.Diagnostics
	if ans.Stale != 0 {
		diags = append(diags, stages.StaleWarning(cfg.Range, "ConfigMap "+cm.V, ans))
	}
	if len(a.Binary) > 0 {
		diags = append(diags, origin.Warning(fault.ClusterUnusable, cm.Range, "ConfigMap "+cm.V+" has keys that are no text",
			"%s: in binaryData, and not UTF-8, so not in data. Save what is meant as text as UTF-8 and apply it again.", strings.Join(a.Binary, ", ")))
	}
	for _, k := range slices.Sorted(maps.Keys(a.Data)) {
		if !value.IsExact(a.Data[k]) {
			diags = append(diags, inexact(cm.Range, fmt.Sprintf("Key %q of ConfigMap %s", k, cm.V)))
		}
		if value.HasPlaceholder(a.Data[k]) {
			return stages.Output{}, append(diags, origin.Error(fault.ClusterUnusable, cm.Range, fmt.Sprintf("Key %q of ConfigMap %s has a character that prelet keeps for itself", k, cm.V), "Remove U+E000 and U+E001 from it."))
		}
	}
	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{"data": value.StringMap(a.Data), "value": cty.NullVal(cty.DynamicPseudoType), "resource_version": cty.StringVal(a.ResourceVersion)})}, diags
}

func (s Stage) file(ctx context.Context, cfg schema.Body, f schema.Value[string], r world.Source) (stages.Output, hcl.Diagnostics) {
	patience, _ := time.ParseDuration(wait.Of(cfg).V) // checked; "" is no wait
	a, ans, err := world.File.Ask(ctx, r, world.FileReq{Path: f.V, WaitMillis: patience.Milliseconds()})
	out := value.Absent(s.Outputs(stages.Declared{})).AsValueMap()
	switch {
	case ans.Code() == fault.Unread:
		what := "file " + f.V
		return stages.Unanswered(s.Outputs(stages.Declared{}), what, ans), hcl.Diagnostics{origin.NotRead(f.Range, what, []string{what})}
	case ans.Code() == fault.Absent && optional.Of(cfg).V:
		return stages.Output{Value: cty.ObjectVal(out)}, nil
	case ans.Code() == fault.Absent && patience > 0:
		return stages.Output{}, hcl.Diagnostics{origin.Error(fault.FileLate, f.Range, "Timed out waiting for file "+f.V, "It did not come in %s. Look at what writes it, or raise wait.", wait.Of(cfg).V)}
	case ans.Code() == fault.Absent:
		return stages.Output{}, hcl.Diagnostics{origin.Error(fault.FileMissing, f.Range, "There is no file "+f.V, "The site needs it on this node. Make it, write wait = \"60s\" if something writes it during boot, or optional = true if nodes without it are right.")}
	case err != nil:
		return stages.Output{}, hcl.Diagnostics{stages.Diagnose(f.Range, ans.Fault.Raise(fault.FileUnusable, "Cannot read "+f.V))}
	case value.HasPlaceholder(a.Text):
		return stages.Output{}, hcl.Diagnostics{origin.Error(fault.FileUnusable, f.Range, f.V+" has a character that prelet keeps for itself", "Remove U+E000 and U+E001 from it.")}
	}
	v, err := value.DecodeYAML([]byte(a.Text))
	if err != nil && json.Valid([]byte(a.Text)) { // its escapes are not all YAML's
		v, err = value.DecodeJSON([]byte(a.Text))
	}
	if err != nil {
		return stages.Output{}, hcl.Diagnostics{origin.Error(fault.FileUnusable, f.Range, f.V+" is not YAML or JSON", "%s", stages.Sentence(describeText(a.Text, err), "Fix the file"))}
	}
	out["value"] = v
	var diags hcl.Diagnostics
	if !value.IsExact(a.Text) {
		diags = append(diags, inexact(f.Range, f.V))
	}

	return stages.Output{Value: cty.ObjectVal(out)}, diags
}

// inexact warns of a text that is another one as a value.
func inexact(at hcl.Range, what string) *hcl.Diagnostic {
	return origin.Warning(fault.Encoding, at, what+" has characters that are combined",
		"It has letters with combining marks (Unicode NFD), and values have these as one character (NFC): a path or name with one is another one then. Write it in NFC at its source, as `uconv -x nfc` does.")
}

// describeText returns what is wrong with a text that is not YAML. One that begins as JSON is meant as JSON, whose errors
// have a place.
func describeText(text string, err error) string {
	var v any
	var wrong *json.SyntaxError
	begin := strings.TrimSpace(text)
	if !strings.HasPrefix(begin, "{") && !strings.HasPrefix(begin, "[") || !errors.As(json.Unmarshal([]byte(text), &v), &wrong) {
		return err.Error()
	}
	before := text[:wrong.Offset]
	return fmt.Sprintf("line %d, column %d: %s", strings.Count(before, "\n")+1, len(before)-strings.LastIndex(before, "\n")-1, wrong)
}

func checkConfigMap(s string) error {
	ns, name, ok := strings.Cut(s, "/")
	if !ok {
		return fmt.Errorf("%q is not NAMESPACE/NAME; the kubelet's own is kube-system/kubelet-config", s)
	}
	if e := content.IsDNS1123Label(ns); len(e) > 0 {
		return fmt.Errorf("namespace %q: %s", ns, strings.Join(e, "; "))
	}
	if e := content.IsDNS1123Subdomain(name); len(e) > 0 {
		return fmt.Errorf("name %q: %s", name, strings.Join(e, "; "))
	}
	return nil
}

func checkFile(s string) error {
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("%q is not an absolute path: write %q", s, "/"+s)
	}
	return nil
}
