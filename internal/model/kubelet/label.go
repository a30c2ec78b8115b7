package kubelet

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// Label is one label of a node.
type Label struct{ Key, Value string }

// ParseLabels parses the value of --node-labels: key=value pairs, separated by commas. A key alone has an empty
// value, empty items are skipped, and the last value of a key counts, in the place of the first
// (k8s.io/component-base cli/flag, ConfigurationMap). It checks keys and values as the kubelet does; CheckNodeKey
// checks whether a key is allowed.
func ParseLabels(list string) ([]Label, error) {
	var labels []Label
	for _, item := range splitList(list) {
		key, value, _ := strings.Cut(item, "=")
		l := Label{strings.TrimSpace(key), strings.TrimSpace(value)}
		isSame := func(o Label) bool { return o.Key == l.Key }
		if i := slices.IndexFunc(labels, isSame); i >= 0 {
			labels[i] = l
			continue
		}
		labels = append(labels, l)
	}
	for _, l := range labels {
		if err := CheckLabel(l.Key, l.Value); err != nil {
			return nil, err
		}
	}
	return labels, nil
}

// CheckLabel checks the form of a key and a value: a name of at most 63 characters, with an optional DNS prefix of at
// most 253 and a slash; a value of at most 63 characters, with letters and digits at both ends and - _ . between
// them.
func CheckLabel(key, value string) error {
	if err := CheckLabelKey(key); err != nil {
		return fmt.Errorf("label %s=%s: %w", key, value, err)
	}

	return CheckLabelValue(key, value)
}

// CheckLabelKey checks only the key.
func CheckLabelKey(key string) error {
	if key == "" {
		return errors.New("the key is empty")
	}
	if problems := content.IsLabelKey(key); len(problems) > 0 {
		return fmt.Errorf("invalid key %q: %s", key, strings.Join(problems, "; "))
	}

	return nil
}

// CheckLabelValue checks only the value; the key is for the message.
func CheckLabelValue(key, value string) error {
	if err := checkValue(value); err != nil {
		return fmt.Errorf("label %s=%s: %w", key, value, err)
	}

	return nil
}

// CheckNodeKey checks whether a kubelet may set a label with a well-formed key on its own node. An empty kubeletVersion
// ("v1.36.3", "1.15") counts as a new one.
//
// In the domains kubernetes.io and k8s.io a kubelet from 1.16 on exits for all labels except selfLabels and those
// below kubelet.kubernetes.io and node.kubernetes.io; the NodeRestriction admission plugin rejects them, too
// (k8s.io/kubelet/pkg/apis/well_known_labels.go, IsKubeletLabel; plugin/pkg/admission/noderestriction). An older
// kubelet only warns, except for node-restriction.kubernetes.io, which NodeRestriction has rejected since 1.11.
func CheckNodeKey(key, kubeletVersion string) error {
	domain, name, hasDomain := strings.Cut(key, "/")
	isReserved := isBelow(domain, "kubernetes.io") || isBelow(domain, "k8s.io")
	isNodes := isBelow(domain, "kubelet.kubernetes.io") || isBelow(domain, "node.kubernetes.io")
	isFree := !hasDomain || !isReserved
	if isFree || isNodes || slices.Contains(selfLabels(), key) {
		return nil
	}
	if isBelow(domain, "node-restriction.kubernetes.io") {
		return fmt.Errorf(
			"label %s: a kubelet may not set labels below node-restriction.kubernetes.io on its own node: "+
				"let an administrator or a controller set it, or choose a domain of your own",
			key,
		)
	}
	if isBefore116(kubeletVersion) {
		return nil
	}

	advice := "choose a domain of your own, or node.kubernetes.io/" + name
	if i := slices.IndexFunc(selfLabels(), func(own string) bool { return path.Base(own) == name }); i >= 0 {
		advice = "did you mean " + selfLabels()[i] + "?"
	}
	if domain == "node-role.kubernetes.io" {
		advice = "let an administrator or a controller set the role on the Node (kubectl label node), " +
			"or choose a domain of your own"
	}

	return fmt.Errorf("label %s: a kubelet may not set it on its own node: it exits with "+
		"\"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels\"; %s", key, advice)
}

// selfLabels returns the labels of kubernetes.io that a kubelet may set.
func selfLabels() []string {
	return []string{
		"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
		"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
		"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type",
		"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
}

// FollowsRestart reports whether a restarted kubelet updates a label of an existing Node
// (pkg/kubelet/kubelet_node_status.go, updateDefaultLabels). It sets all other labels only when it creates the Node.
func FollowsRestart(key string) bool { return slices.Contains(selfLabels(), key) }

// CheckOwnLabel rejects values of kubernetes.io/os and kubernetes.io/arch that the kubelet replaces with each update
// of its status (pkg/kubelet/kubelet_node_status.go, updateNode).
func CheckOwnLabel(key, value string) error {
	values := map[string]string{
		"kubernetes.io/os":   "linux",
		"kubernetes.io/arch": "amd64 arm64 arm 386 ppc64le s390x riscv64 loong64",
	}
	valid, isOwn := values[key]
	if !isOwn || slices.Contains(strings.Fields(valid), value) {
		return nil
	}

	return fmt.Errorf("label %s=%s: the kubelet replaces it with its own value (linux; amd64, arm64): remove it",
		key, value)
}

func isBelow(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// isBefore116 reports whether a version is certainly older than 1.16.
func isBefore116(version string) bool {
	minor, isKnown := known.Minor(version)

	return isKnown && minor < 16
}
