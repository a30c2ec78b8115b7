// Package fetchconfig is the stage that reads configuration: a ConfigMap of the cluster, or a file of the node.
// Each instance asks one question through the tape and turns the answer into values. It must not read anything itself.
package fetchconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/value"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

var (
	configMapAttr = schema.Attr[string]{
		Name:  "config_map",
		Check: checkConfigMap,
		Doc: "`NAMESPACE/NAME`. Read with the bootstrap token, " +
			"or with kubelet.conf on a node that has joined.",
	}
	fileAttr = schema.Attr[string]{
		Name:  "file",
		Check: checkFile,
		Doc: "A file of the node, YAML or JSON, that [every user may read]" +
			"(../image-builders/secrets.md#what-is-public). Its name may depend on other gather stages.",
	}
	optionalAttr = schema.Attr[bool]{
		Name:    "optional",
		Default: false,
		Doc:     "Whether it may be missing: then `data` is empty and `value` is null.",
	}
	waitAttr = schema.Attr[string]{
		Name:  "wait",
		Check: schema.Duration,
		Doc: "How long to wait for a `file` that something else writes during boot, " +
			"inside the stage's `timeout`. With `optional`, " +
			"a file that is still missing then counts as missing.",
	}
)

// Stage implements stages.Gatherer.
type Stage struct{}

// Spec implements stages.Stage.
func (Stage) Spec() stages.Spec {
	return stages.Spec{
		Phase:       schema.Gather,
		ForEach:     true,
		Timeout:     3 * time.Minute,
		TimeoutCode: fault.ClusterUnreachable,
		Block: schema.Block{
			Type: stages.FetchConfig,
			Doc: "Fetches configuration: `config_map` or `file`. `data` is a ConfigMap's (empty for a file), " +
				"`value` a file parsed as YAML (null for a ConfigMap).",
			Fields: []schema.Field{configMapAttr, fileAttr, optionalAttr, waitAttr},
		},
	}
}

// Outputs implements stages.Stage.
func (Stage) Outputs(stages.Declared) cty.Type {
	return cty.Object(map[string]cty.Type{
		"data":             cty.Map(cty.String),
		"value":            cty.DynamicPseudoType,
		"resource_version": cty.String,
	})
}

// Check implements stages.Checker.
func (Stage) Check(cfg schema.Body, in stages.Inputs) hcl.Diagnostics {
	configMap := configMapAttr.Of(cfg)
	file := fileAttr.Of(cfg)
	wait := waitAttr.Of(cfg)

	switch {
	case configMap.Set() && file.Set():
		return failure(fault.Conflict, file.Range, "config_map and file together",
			"One stage fetches one thing: declare two stages.")
	case configMap.Set() && wait.Set():
		return failure(
			fault.Conflict,
			wait.Range,
			"config_map and wait together",
			"wait is for a file. For the cluster, `retry` in the cluster block bounds the attempts.",
		)
	case configMap.Set():
		return stages.RequireCluster(cfg.Range, in.NoCluster)
	case configMap.Null() && file.Null() && in.Facts == nil: // on a machine null is possible: nothing to fetch there
		return failure(
			fault.MissingArgument,
			nullRange(cfg),
			"Nothing to fetch",
			"Write config_map = \"NAMESPACE/NAME\" or file = \"/PATH\". Null counts as not written; "+
				"for machines that need neither, leave the stage out: when = …",
		)
	case file.Set() && desired.IsHidden(file.V):
		return hcl.Diagnostics{origin.Warning(
			fault.FileUnusable, file.Range, "prelet.service does not see "+file.V, "%s", desired.WhyHidden(file.V),
		)}
	}

	return nil
}

// nullRange returns where a stage without a source is best reported: at the argument that is null because of a
// reference, else at the first one written, else at the block.
func nullRange(cfg schema.Body) hcl.Range {
	at := cfg.Range

	attributes := []schema.Value[string]{configMapAttr.Of(cfg), fileAttr.Of(cfg)}
	for _, v := range attributes {
		isFirst := at == cfg.Range
		if v.Expr != nil && (isFirst || len(v.Expr.Variables()) > 0) {
			at = v.Range
		}
	}

	return at
}

// Gather implements stages.Gatherer.
func (s Stage) Gather(
	ctx context.Context,
	cfg schema.Body,
	env stages.Env,
	r tape.Source,
) (stages.Output, hcl.Diagnostics) {
	in := stages.Inputs{NoCluster: env.Cluster.Filename == ""}
	if diags := s.Check(cfg, in); diags.HasErrors() {
		return stages.Output{}, diags
	}

	switch {
	case configMapAttr.Of(cfg).Set():
		return s.gatherConfigMap(ctx, cfg, env, r)
	case fileAttr.Of(cfg).Set():
		return s.gatherFile(ctx, cfg, r)
	}

	return stages.Output{Value: value.UnknownOutput(s.Outputs(stages.Declared{}))}, nil
}

func (s Stage) gatherConfigMap(
	ctx context.Context,
	cfg schema.Body,
	env stages.Env,
	r tape.Source,
) (stages.Output, hcl.Diagnostics) {
	source := configMapAttr.Of(cfg)
	what := "ConfigMap " + source.V
	outputs := s.Outputs(stages.Declared{})
	isOptional := optionalAttr.Of(cfg).V

	namespace, name, _ := strings.Cut(source.V, "/")
	object, ans, err := tape.Object.Ask(ctx, r, tape.ObjectReq{
		Access:    env.Access,
		Namespace: namespace,
		Name:      name,
		Optional:  isOptional,
	})

	switch {
	case ans.Code() == fault.Absent && isOptional:
		return stages.Output{Value: value.Absent(outputs)}, nil
	case err != nil:
		return stages.Output{}, stages.DiagnoseCluster(source.Range, what, ans.Fault)
	}

	var diags hcl.Diagnostics
	if ans.Stale != 0 {
		diags = append(diags, stages.WarnStale(cfg.Range, what, ans))
	}
	if object.Refused != "" {
		diags = append(diags, warnRefused(cfg.Range, what, object.Refused))
	}
	if len(object.Binary) > 0 {
		diags = append(
			diags,
			origin.Warning(
				fault.ClusterUnusable,
				source.Range,
				what+" has keys that are not text",
				"%s: in binaryData, and not UTF-8, so not in data. Save text as UTF-8 and apply it again.",
				strings.Join(object.Binary, ", "),
			),
		)
	}
	for _, key := range slices.Sorted(maps.Keys(object.Data)) {
		where := fmt.Sprintf("Key %q of %s", key, what)
		diags = append(
			diags,
			checkText(fault.ClusterUnusable, source.Range, where, object.Data[key])...)
	}
	if diags.HasErrors() {
		return stages.Output{}, diags
	}

	return stages.Output{Value: cty.ObjectVal(map[string]cty.Value{
		"data":             value.StringMap(object.Data),
		"value":            cty.NullVal(cty.DynamicPseudoType),
		"resource_version": cty.StringVal(object.ResourceVersion),
	})}, diags
}

// warnRefused warns that only the token was accepted: a kubelet with a valid certificate does not join again.
func warnRefused(at hcl.Range, what, why string) *hcl.Diagnostic {
	return origin.Warning(
		fault.Identity, at, "The cluster does not accept the identity in kubelet.conf",
		"%s. %s was read with the bootstrap token, but the kubelet has only this identity, and its node stays "+
			"NotReady. If the cluster no longer trusts the CA that issued it, let the node join again: %s.",
		why, what, kubelet.HowToJoinAgain,
	)
}

func (s Stage) gatherFile(
	ctx context.Context,
	cfg schema.Body,
	r tape.Source,
) (stages.Output, hcl.Diagnostics) {
	source := fileAttr.Of(cfg)
	wait := waitAttr.Of(cfg)
	outputs := s.Outputs(stages.Declared{})

	patience := schema.ParseDuration(wait)
	file, ans, err := tape.File.Ask(
		ctx,
		r,
		tape.FileReq{Path: source.V, WaitMillis: patience.Milliseconds()},
	)

	switch {
	case ans.Code() == fault.Absent && optionalAttr.Of(cfg).V:
		return stages.Output{Value: value.Absent(outputs)}, nil
	case ans.Code() == fault.Unread:
		return stages.Output{}, hcl.Diagnostics{origin.NotRead(source.Range, "file "+source.V)}
	case ans.Code() == fault.Absent && patience > 0:
		return stages.Output{}, failure(
			fault.FileLate,
			source.Range,
			"Timed out waiting for file "+source.V,
			"It did not appear in %s, or before the timeout of the stage. Look at the service that writes it, or "+
				"raise both.",
			wait.V,
		)
	case ans.Code() == fault.Absent:
		return stages.Output{}, failure(
			fault.FileMissing,
			source.Range,
			"File "+source.V+" is missing",
			"The site needs it on this node. Create it, write wait = \"60s\" "+
				"if another service writes it during boot, or optional = true if nodes without it "+
				"are right.",
		)
	case err != nil:
		unusable := ans.Fault.Raise(fault.FileUnusable, "Cannot read "+source.V)

		return stages.Output{}, hcl.Diagnostics{stages.Diagnose(source.Range, unusable)}
	}

	if file.Private != "" {
		return stages.Output{}, failure(
			fault.FileUnusable, source.Range, "Cannot read "+source.V, "%s: %s.", source.V, file.Private,
		)
	}

	diags := checkText(fault.FileUnusable, source.Range, source.V, file.Text)
	if diags.HasErrors() {
		return stages.Output{}, diags
	}

	v, err := decode(file.Text)
	if err != nil {
		return stages.Output{}, failure(
			fault.FileUnusable,
			source.Range,
			source.V+" is not YAML or JSON",
			"%s",
			stages.Sentence(describeText(file.Text, err), "Fix the file"),
		)
	}

	out := value.Absent(outputs).AsValueMap()
	out["value"] = v

	return stages.Output{Value: cty.ObjectVal(out)}, diags
}

// decode reads YAML, or JSON: not all escapes of JSON are also YAML's.
func decode(text string) (cty.Value, error) {
	v, err := codec.DecodeYAML([]byte(text))
	if err != nil && json.Valid([]byte(text)) {
		return codec.DecodeJSON([]byte(text))
	}

	return v, err
}

// checkText refuses a text with characters that prelet reserves, and warns of a text that changes when it becomes a
// value.
func checkText(code fault.Code, at hcl.Range, what, text string) (diags hcl.Diagnostics) {
	if !value.IsExact(text) {
		diags = append(diags, origin.Warning(
			fault.Encoding,
			at,
			what+" has combining characters",
			"It has letters with combining marks (Unicode NFD), and values have these as one character (NFC): "+
				"a path or name with one changes. Write it in NFC at its source, as `uconv -x nfc` does.",
		))
	}
	if secret.HasPlaceholder(text) {
		diags = append(diags, failure(code, at, what+" has a character that prelet reserves",
			"Remove U+E000 and U+E001 from it.")...)
	}

	return diags
}

// describeText describes the error of a text that is not YAML. A text that begins like JSON is probably JSON, whose
// errors have a place.
func describeText(text string, err error) string {
	var syntax *json.SyntaxError

	begin := strings.TrimSpace(text)
	isLikeJSON := strings.HasPrefix(begin, "{") || strings.HasPrefix(begin, "[")
	invalid := json.Unmarshal([]byte(text), new(any))
	if !isLikeJSON || !errors.As(invalid, &syntax) {
		return err.Error()
	}

	before := text[:syntax.Offset]
	line := strings.Count(before, "\n") + 1
	column := len(before) - strings.LastIndex(before, "\n") - 1

	return fmt.Sprintf("line %d, column %d: %s", line, column, syntax)
}

func failure(
	code fault.Code,
	at hcl.Range,
	summary, detail string,
	args ...any,
) hcl.Diagnostics {
	return hcl.Diagnostics{origin.Error(code, at, summary, detail, args...)}
}

func checkConfigMap(s string) error {
	namespace, name, ok := strings.Cut(s, "/")
	if !ok {
		return fmt.Errorf(
			"%q is not NAMESPACE/NAME; the kubelet's own is kube-system/kubelet-config",
			s,
		)
	}
	if e := content.IsDNS1123Label(namespace); len(e) > 0 {
		return fmt.Errorf("namespace %q: %s", namespace, strings.Join(e, "; "))
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
	if strings.HasPrefix(path.Clean(s), "/dev/") {
		return fmt.Errorf("%q is a device", s)
	}

	return nil
}
