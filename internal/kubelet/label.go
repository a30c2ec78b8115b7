package kubelet

import (
	"fmt"
	"slices"
	"strings"
)

// Label is one label of a node.
type Label struct{ Key, Value string }

// ParseLabels reads the value of --node-labels: key=value pairs with commas between, in their order. A key alone
// has the empty value; empty items are skipped; of one key given twice the last value counts, in the first
// one's place (k8s.io/component-base cli/flag, ConfigurationMap). Keys and values are checked as the kubelet does;
// whether a key is allowed is CheckNodeKey's question.
func ParseLabels(list string) ([]Label, error) {
	var labels []Label
	for _, item := range splitList(list) {
		key, value, _ := strings.Cut(item, "=")
		l := Label{strings.TrimSpace(key), strings.TrimSpace(value)}
		if i := slices.IndexFunc(labels, func(o Label) bool { return o.Key == l.Key }); i >= 0 {
			labels[i] = l
			continue
		}
		labels = append(labels, l)
	}
	for _, l := range labels { // a value that another has replaced is not looked at
		if err := CheckLabel(l.Key, l.Value); err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// CheckLabel says whether key and value are well formed: a name of at most 63 characters, with an optional DNS
// prefix of at most 253 and a slash; a value of at most 63 characters, letters and digits at both ends and
// - _ . between.
func CheckLabel(key, value string) error {
	if err := CheckLabelKey(key); err != nil {
		return fmt.Errorf("label %s=%s: %w", key, value, err)
	}

	return CheckLabelValue(key, value)
}

// CheckLabelKey is the part of CheckLabel that is about the key.
func CheckLabelKey(key string) error { return checkKey(key) }

// CheckLabelValue is the part of CheckLabel that is about the value. The key is only named.
func CheckLabelValue(key, value string) error {
	if err := checkValue(value); err != nil {
		return fmt.Errorf("label %s=%s: %w", key, value, err)
	}

	return nil
}

// CheckNodeLabel is CheckLabel and CheckNodeKey.
func CheckNodeLabel(key, value, kubeletVersion string) error {
	if err := CheckLabel(key, value); err != nil {
		return err
	}

	return CheckNodeKey(key, kubeletVersion)
}

// CheckNodeKey says whether a kubelet may give its own node a label with a well-formed key, whatever its value.
// kubeletVersion is that of the kubelet ("v1.36.3", "1.15"; empty when unknown, which counts as a new one).
//
// Within the domains kubernetes.io and k8s.io a kubelet from 1.16 on exits at once for any label but those in
// selfLabels and those below kubelet.kubernetes.io and node.kubernetes.io; the NodeRestriction admission plugin
// says the same to a node that patches itself, and refuses node-restriction.kubernetes.io by name
// (k8s.io/kubelet/pkg/apis/well_known_labels.go, IsKubeletLabel; plugin/pkg/admission/noderestriction). A kubelet
// before 1.16 takes the others with a warning, but for node-restriction.kubernetes.io, which NodeRestriction has
// kept from nodes since 1.11. All other domains are free.
func CheckNodeKey(key, kubeletVersion string) error {
	prefix, _, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix || !(within(prefix, "kubernetes.io") || within(prefix, "k8s.io")) {
		return nil
	}
	if slices.Contains(selfLabels(), key) || within(prefix, "kubelet.kubernetes.io") || within(prefix, "node.kubernetes.io") {
		return nil
	}
	if within(prefix, "node-restriction.kubernetes.io") {
		return fmt.Errorf("label %s: no kubelet may set labels below node-restriction.kubernetes.io on its own node, that is what they are for: let an administrator or a controller set it, or choose a domain of your own", key)
	}
	if before116(kubeletVersion) {
		return nil
	}
	advice := "choose a domain of your own, or node.kubernetes.io/" + key[len(prefix)+1:]
	if prefix == "node-role.kubernetes.io" {
		advice = "let an administrator or a controller set the role on the Node (kubectl label node), or choose a domain of your own"
	}
	return fmt.Errorf("label %s: a kubelet may not set it on its own node: it exits with \"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels\"; %s", key, advice)
}

// selfLabels are the labels within kubernetes.io that a kubelet may set by name.
func selfLabels() []string {
	return []string{
		"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
}

// FollowsRestart says whether the kubelet brings a label of an existing Node up to date when it restarts
// (k8s.io/kubernetes pkg/kubelet/kubelet_node_status.go, updateDefaultLabels). All other labels of --node-labels
// count only when the Node object is made.
func FollowsRestart(key string) bool { return slices.Contains(selfLabels(), key) }

// CheckOwnLabel says whether the kubelet lets a label have this value. Over kubernetes.io/os and kubernetes.io/arch it writes what it was
// built for, at each update of its status, and so without an end (pkg/kubelet/kubelet_node_status.go, updateNode).
func CheckOwnLabel(key, value string) error {
	switch {
	case key == "kubernetes.io/os" && value != "linux":
	case key == "kubernetes.io/arch" && !slices.Contains([]string{"amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "loong64"}, value):
	default:
		return nil
	}
	return fmt.Errorf("label %s=%s: the kubelet writes its own value over it, again and again (linux; amd64, arm64): leave it out", key, value)
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// before116 says whether a version is known to be older than 1.16.
func before116(version string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major < 1 || major == 1 && minor < 16
}
