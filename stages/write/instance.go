package write

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
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
	merged := kubelet.NewConfig()
	if err == nil {
		err = errors.Join(merged.Merge(base.Config), merged.Merge(fields))
	}
	if err == nil {
		err = r.checkMerged(base.Config, merged.Object())
	}
	if err != nil {
		return hcl.Diagnostics{warnInstance(v, file, err)}
	}
	base.Instance = fields
	if v.V {
		base.Config = merged.Object()
		base.InstanceMerged = true
	}

	return nil
}

// checkMerged refuses fields of an instance-config.yaml with which the kubelet would not start, such as a text where
// a number is needed. What the cluster's configuration has wrong itself is not the fault of that file.
func (r baseReader) checkMerged(cluster, merged map[string]any) error {
	before, err := r.refuseConfig(cluster)
	if err != nil {
		return err
	}
	after, err := r.refuseConfig(merged)
	if err != nil {
		return err
	}
	for _, why := range after {
		if !slices.Contains(before, why) {
			return errors.New(why)
		}
	}

	_, err = kubelet.ConfigTaints(merged)
	if _, ofCluster := kubelet.ConfigTaints(cluster); ofCluster != nil {
		return nil
	}

	return err
}

// refuseConfig returns why the installed kubelet certainly would not start with a configuration, of which a site may
// set more fields.
func (r baseReader) refuseConfig(config map[string]any) (why []string, err error) {
	s := rules.Subject{Config: kubelet.NewConfig(), Part: true}
	if err := s.Config.Merge(config); err != nil {
		return nil, err
	}
	if version := r.in.Kubelet.Version; version != nil {
		s.Version = *version
	}
	for _, f := range rules.Check(s) {
		if f.Effect == rules.Exits && f.Severity == rules.Error && !f.Uncertain && f.Pointer != "" {
			field := strings.ReplaceAll(strings.TrimPrefix(f.Pointer, "/"), "/", ".")
			why = append(why, "the kubelet would not start with "+field+": "+f.Message)
		}
	}

	return why, nil
}

// isWrittenByKubeadm reports whether a block writes the file that `kubeadm upgrade node` writes.
func (r baseReader) isWrittenByKubeadm(b schema.Body) bool {
	return !isDropIn(b) && configTarget(b, r.in) == chooseLayout(r.in).ConfigFile
}

// reportInstance returns the diagnostics for an instance-config.yaml that could not be read. Without
// `instance_config` nothing depends on it, so a replay of an older recording, a check and a user who may not read the
// file continue without it.
func (r baseReader) reportInstance(
	base *node.Base, v schema.Value[bool], file string, err error,
) hcl.Diagnostics {
	var f *fault.Fault
	isUnread := errors.As(err, &f) && (f.Code == fault.Unread || f.Code == fault.Denied)
	switch {
	case isUnread && !v.V:
		return nil
	case isUnread:
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
		next = "It is left as it is, so `kubeadm upgrade node` would fail, or merge it over settings of this site. " +
			next
	}
	why := nameFile(file, err)
	if errors.Is(err, kubelet.ErrSecondDocument) {
		why = file + ": it has several documents, which only kubeadm merges, one after the other"
	}

	return origin.Warning(
		fault.ConfigInvalid, v.Range, "kubeadm's instance-config.yaml cannot be used", "%s", stages.Sentence(why, next),
	)
}

// nameFile returns the text of an error, with the file that it is about.
func nameFile(file string, err error) string {
	if strings.HasPrefix(err.Error(), file) {
		return err.Error()
	}

	return file + ": " + err.Error()
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

// addInstanceFile adds instance-config.yaml: what differs from the cluster's configuration, all that stages set, and
// fields that were in the file before prelet. A file without fields is not made.
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
	for _, s := range n.Settings {
		keepSetting(fields, config, s.Path)
	}
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

// keepSetting adds to fields the value of a setting, also where the cluster's configuration has the same value now: it
// stays if the cluster gets another one. A removed field is null. It is left out if the object around it is not set,
// because null in it would make an empty object.
func keepSetting(fields, config map[string]any, path []string) {
	name := path[0]
	v, isSet := config[name]
	inner, isObject := v.(map[string]any)
	switch {
	case len(path) > 1 && !isObject:
	case len(path) > 1:
		own, _ := fields[name].(map[string]any)
		if own == nil {
			own = map[string]any{}
		}
		keepSetting(own, inner, path[1:])
		if len(own) > 0 {
			fields[name] = own
		}
	case !isSet:
		fields[name] = nil
	case !isObject:
		fields[name] = v
	case fields[name] == nil:
		fields[name] = map[string]any{}
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

	undone, dropped := listUndone(r.in.Base.Config, before, n)
	if len(dropped) > 0 {
		r.report(origin.Note(
			fault.Conflict, b.Range, "Settings of kubeadm's instance-config.yaml are dropped",
			"%s has %s, and this site writes %s without them: the kubelet gets the cluster's values. "+
				"`kubeadm upgrade node` would bring them back. %s.",
			file, shortList(dropped), configTarget(b, r.in), next,
		))
	}
	if len(undone) > 0 {
		r.report(origin.Note(
			fault.Conflict, b.Range, "kubeadm upgrade node would undo settings",
			"This node has kubeadm's %s. `kubeadm upgrade node` writes %s again without %s. %s.",
			file, configTarget(b, r.in), shortList(undone), next,
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

// listUndone returns the fields of a node's configuration that differ after `kubeadm upgrade node`: those of the site
// that are undone, and those of instance-config.yaml that the site does not set and drops.
func listUndone(base, instance map[string]any, n node.Node) (undone, dropped []string) {
	after := kubelet.NewConfig()
	planned := kubelet.NewConfig()
	if err := errors.Join(after.Merge(base), after.Merge(instance), planned.Merge(n.Config)); err != nil {
		return nil, nil
	}

	differing := kubelet.MergePatch(planned.Object(), after.Object())
	for _, name := range slices.Sorted(maps.Keys(differing)) {
		_, isOfFile := instance[name]
		isOfSite := slices.ContainsFunc(n.Settings, func(s node.Setting) bool {
			return s.Path[0] == name
		})
		switch {
		case name == runtimeEndpoint:
		case isOfFile && !isOfSite:
			dropped = append(dropped, name)
		default:
			undone = append(undone, name)
		}
	}

	return undone, dropped
}

// shortList joins the first names of a list.
func shortList(names []string) string {
	if len(names) > maxNamed {
		names = append(names[:maxNamed:maxNamed], "…")
	}

	return strings.Join(names, ", ")
}
