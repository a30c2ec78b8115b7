package write

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/schema"
)

// The field with the container runtime's socket, and the value of a kubelet without it.
// Source: pkg/kubelet/apis/config/v1beta1/defaults.go.
const (
	runtimeEndpoint        = "containerRuntimeEndpoint"
	defaultRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
)

// maxNamed is how many settings one message names.
const maxNamed = 4

// readInstance returns the fields of kubeadm's instance-config.yaml; nil if there is none, or if it cannot be read or
// used: only kubeadm reads it, so a boot does not depend on it.
func (r *baseReader) readInstance(b schema.Body) map[string]any {
	isKubeadms := !isDropIn(b) && configTarget(b, r.in) == chooseLayout(r.in).ConfigFile
	if !isKubeadms {
		return nil
	}
	a, err := r.original(chooseLayout(r.in).InstanceConfig)
	if err != nil {
		return nil
	}
	fields, err := kubelet.ParseFields(a.Text)
	if err != nil {
		return nil
	}

	return fields
}

// noteUpgrade warns if the site drops the runtime's socket that kubeadm wrote, and notes the fields that `kubeadm
// upgrade node` would change. Without an instance-config.yaml the node is not taken for one of kubeadm, and a site that
// writes that file has decided on its content.
//
// kubeadm writes config.yaml as kubelet-config of the cluster, merged with the patches of --patches, merged with
// instance-config.yaml. Source: cmd/kubeadm/app/phases/kubelet/config.go, WriteConfigToDisk.
func (r *renderer) noteUpgrade(b schema.Body, n desired.Node) {
	before := r.in.Base.Instance
	file := chooseLayout(r.in).InstanceConfig
	if len(before) == 0 || !r.in.Base.ConfigKnown || r.isSkipped(b) {
		return
	}

	socket, _ := before[runtimeEndpoint].(string)
	planned := findEndpoint(n)
	if socket != "" && trimVar(socket) != trimVar(planned) {
		r.Warn(
			fault.Conflict, b.Range, "The runtime's socket of kubeadm is dropped",
			"%s has %s: %s, and this site's kubelet gets %s. Set %s in patch.",
			file, runtimeEndpoint, socket, planned, runtimeEndpoint,
		)
	}

	isOfSite := slices.ContainsFunc(r.cfg.Blocks["file"], func(f schema.Body) bool {
		return filePath.Of(f).V == file
	})
	changed := listUpgraded(r.in.Base.Config, before, n)
	if isOfSite || len(changed) == 0 {
		return
	}
	r.Note(
		fault.Conflict, b.Range, "kubeadm upgrade node would undo settings",
		"This node has kubeadm's %s. `kubeadm upgrade node` writes %s again with other values of %s, until the next "+
			"`prelet run`. To keep them, write these fields to that file with a file block: "+
			"docs/image-builders/kubeadm.md.",
		file, configTarget(b, r.in), shortList(changed),
	)
}

// findEndpoint returns the socket of the runtime that a kubelet is started with.
func findEndpoint(n desired.Node) string {
	if f, ok := desired.FindFlag(n.Flags, "container-runtime-endpoint"); ok {
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

// listUpgraded returns the fields of a node's configuration that differ after `kubeadm upgrade node`, without the
// runtime's socket.
func listUpgraded(base, instance map[string]any, n desired.Node) []string {
	after := kubelet.NewConfig()
	planned := kubelet.NewConfig()
	if err := errors.Join(after.Merge(base), after.Merge(instance), planned.Merge(n.Config)); err != nil {
		return nil
	}

	changed := kubelet.MergePatch(planned.Object(), after.Object())
	delete(changed, runtimeEndpoint)

	return slices.Sorted(maps.Keys(changed))
}

// shortList joins the first names of a list.
func shortList(names []string) string {
	if len(names) > maxNamed {
		names = append(names[:maxNamed:maxNamed], "…")
	}

	return strings.Join(names, ", ")
}
