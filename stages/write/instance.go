package write

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

// The field with the container runtime's socket, and the value of a kubelet without it.
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go.
const (
	runtimeEndpoint        = "containerRuntimeEndpoint"
	defaultRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
)

// maxNamed is how many settings one message names.
const maxNamed = 4

// addInstance reads kubeadm's instance-config.yaml. With `instance_config` its fields are merged into the base, as
// kubeadm merges them into the cluster's configuration. A file that prelet cannot use never fails the boot, because the
// kubelet does not read it.
func (r baseReader) addInstance(base *node.Base, b schema.Body) hcl.Diagnostics {
	v := configInstance.Of(b)
	if !r.isWrittenByKubeadm(b) {
		return nil // renderInstance refuses the argument
	}
	if !v.Cty.IsKnown() {
		base.ConfigKnown = false
		base.Unread = append(base.Unread, value.Questions(v.Cty)...)
		return nil
	}

	file := chooseLayout(r.in).InstanceConfig
	a, err := r.original(file)
	if err != nil {
		return r.reportInstance(base, v, file, err)
	}
	fields, err := kubelet.ParseFields(a.Text)
	if err == nil {
		err = checkDirectives(fields)
	}
	if err != nil {
		return hcl.Diagnostics{warnInstance(v, file, err)}
	}
	base.Instance = fields
	if !v.V {
		return nil
	}

	merged := kubelet.NewConfig()
	if err := errors.Join(merged.Merge(base.Config), merged.Merge(fields)); err != nil {
		base.Instance = nil
		return hcl.Diagnostics{warnInstance(v, file, err)}
	}
	base.Config = merged.Object()

	return nil
}

// isWrittenByKubeadm reports whether a block writes the file that `kubeadm upgrade node` writes.
func (r baseReader) isWrittenByKubeadm(b schema.Body) bool {
	return !isDropIn(b) && configTarget(b, r.in) == chooseLayout(r.in).ConfigFile
}

// reportInstance returns the diagnostics for an instance-config.yaml that could not be read. Without
// `instance_config` nothing depends on it, so a replay of an older recording and a check continue without the file.
func (r baseReader) reportInstance(
	base *node.Base, v schema.Value[bool], file string, err error,
) hcl.Diagnostics {
	var f *fault.Fault
	isFault := errors.As(err, &f)
	switch {
	case !v.V:
		return nil
	case isFault && (f.Code == fault.Unread || f.Code == fault.Denied):
		questions, diags := r.reportUnreadable(fault.FileUnusable, v.Range, file, err)
		base.ConfigKnown = base.ConfigKnown && r.in.Check
		base.Unread = append(base.Unread, questions...)
		return diags
	}

	return hcl.Diagnostics{warnInstance(v, file, err)}
}

// warnInstance warns of an instance-config.yaml that kubeadm or prelet cannot use. Prelet leaves it alone.
func warnInstance(v schema.Value[bool], file string, err error) *hcl.Diagnostic {
	next := "Fix or remove it, as root: `kubeadm upgrade node` makes a missing one"
	if v.V {
		next = "It is left as it is, so `kubeadm upgrade node` would fail, or undo settings of this site. " + next
	}

	return origin.Warning(
		fault.ConfigInvalid, v.Range, "kubeadm's instance-config.yaml cannot be used",
		"%s", stages.Sentence(file+": "+err.Error(), next),
	)
}

// checkDirectives refuses directives of a strategic merge patch, such as $patch: only kubeadm applies them.
// Source: k8s.io/apimachinery/pkg/util/strategicpatch.
func checkDirectives(fields map[string]any) error {
	for name, v := range fields {
		if strings.HasPrefix(name, "$") {
			return errors.New(name + " is a directive of a strategic merge patch, which prelet does not apply")
		}
		if inner, isObject := v.(map[string]any); isObject {
			if err := checkDirectives(inner); err != nil {
				return err
			}
		}
	}

	return nil
}

// renderInstance renders kubeadm's instance-config.yaml, or notes what `kubeadm upgrade node` would undo without it.
//
// kubeadm writes config.yaml as kubelet-config of the cluster, merged with the patches of --patches, merged with
// instance-config.yaml. Source: cmd/kubeadm/app/phases/kubelet/config.go, WriteConfigToDisk.
func (r *renderer) renderInstance(b schema.Body, n node.Node) {
	v := configInstance.Of(b)
	isKubeadms := baseReader{in: r.in}.isWrittenByKubeadm(b)
	switch {
	case !v.Cty.IsKnown():
		r.whole = false
	case v.V && !isKubeadms:
		r.fail(
			fault.Conflict, v.Range, "instance_config has no effect here",
			"`kubeadm upgrade node` writes %s, and this block writes %s, which kubeadm leaves alone. "+
				"Remove instance_config.", chooseLayout(r.in).ConfigFile, configTarget(b, r.in),
		)
	case !r.in.Base.ConfigKnown, r.in.Base.Instance == nil, r.in.Unread.Config, r.isSkipped(b):
		r.whole = r.whole && !(v.V && r.in.Check)
	case !v.V && isKubeadms:
		r.noteUpgrade(b, n)
	case v.V:
		r.addInstanceFile(b, n)
	}
}

// addInstanceFile adds instance-config.yaml: what differs from the cluster's configuration, and fields that were in
// the file before prelet. A file without fields is not made.
func (r *renderer) addInstanceFile(b schema.Body, n node.Node) {
	from := map[string]any{}
	base := configBase.Of(b)
	if r.in.IsKubeadmBase && base.Expr == nil {
		if c, err := kubelet.ParseConfig(base.V); err == nil {
			from = c.Object()
		}
	}
	c := kubelet.NewConfig()
	if err := c.Merge(n.Config); err != nil {
		return // renderConfig has reported it
	}

	config := c.Object()
	fields := kubelet.MergePatch(from, config)
	before := r.in.Base.Instance
	keepSame(fields, before, config)
	if e, ok := config[runtimeEndpoint]; ok {
		fields[runtimeEndpoint] = e // kubeadm reads it as the node's CRI socket
	}
	if len(fields) == 0 && len(before) == 0 {
		return
	}

	r.addKubeletFile(b, "instance-config", chooseLayout(r.in).InstanceConfig, string(kubelet.FormatFields(fields)))
}

// keepSame adds to fields those of an earlier instance-config.yaml that the configuration has unchanged: they stay,
// also if the cluster's configuration gets another value.
func keepSame(fields, before, config map[string]any) {
	for name, v := range before {
		now, isSet := config[name]
		inner, isObject := v.(map[string]any)
		nowInner, isNowObject := now.(map[string]any)
		switch {
		case v == nil && !isSet:
			fields[name] = nil
		case isObject && isNowObject:
			own, _ := fields[name].(map[string]any)
			if own == nil {
				own = map[string]any{}
			}
			keepSame(own, inner, nowInner)
			if len(own) > 0 || len(inner) == 0 {
				fields[name] = own
			}
		case v != nil && isSet && reflect.DeepEqual(v, now):
			fields[name] = v
		}
	}
}

// noteUpgrade warns if the site drops the runtime's socket that kubeadm wrote, and notes settings that `kubeadm
// upgrade node` would undo. Without an instance-config.yaml the node is not taken for one of kubeadm.
func (r *renderer) noteUpgrade(b schema.Body, n node.Node) {
	before := r.in.Base.Instance
	if len(before) == 0 {
		return
	}
	file := chooseLayout(r.in).InstanceConfig
	const next = "Write instance_config = true, which keeps both files right"

	socket, _ := before[runtimeEndpoint].(string)
	planned := findEndpoint(n)
	if socket != "" && trimVar(socket) != trimVar(planned) {
		r.warn(
			fault.Conflict, b.Range, "The runtime's socket of kubeadm is dropped",
			"%s has %s: %s, and this site's kubelet gets %s. %s, or set %s in patch.",
			file, runtimeEndpoint, socket, planned, next, runtimeEndpoint,
		)
	}

	if names := listUndone(r.in.Base.Config, before, n.Config); len(names) > 0 {
		r.report(origin.Note(
			fault.Conflict, b.Range, "kubeadm upgrade node would undo settings",
			"This node has kubeadm's %s. `kubeadm upgrade node` writes %s again without %s. %s.",
			file, configTarget(b, r.in), names, next,
		))
	}
}

// findEndpoint returns the socket of the runtime that a kubelet is started with.
func findEndpoint(n node.Node) string {
	if f, ok := node.FindFlag(n.Flags, "container-runtime-endpoint"); ok {
		return f.Value
	}
	if e, _ := n.Config[runtimeEndpoint].(string); e != "" {
		return e
	}

	return defaultRuntimeEndpoint
}

// trimVar removes what differs between two spellings of one socket: the scheme, and /var of /var/run, which is a link.
func trimVar(socket string) string {
	return strings.TrimPrefix(strings.TrimPrefix(socket, "unix://"), "/var")
}

// listUndone names the fields of a configuration that differ after `kubeadm upgrade node`; "" for none.
func listUndone(base, instance, config map[string]any) string {
	after := kubelet.NewConfig()
	planned := kubelet.NewConfig()
	if err := errors.Join(after.Merge(base), after.Merge(instance), planned.Merge(config)); err != nil {
		return ""
	}

	var names []string
	for name := range kubelet.MergePatch(planned.Object(), after.Object()) {
		if name != runtimeEndpoint {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > maxNamed {
		names = append(names[:maxNamed], "…")
	}

	return strings.Join(names, ", ")
}
