package hostfiles

import (
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/origin"
)

// featureFolder is where the worker of Node Feature Discovery (NFD) reads files, of which its master makes labels.
const featureFolder = "/etc/kubernetes/node-feature-discovery/features.d"

// CheckFeatures warns of labels that the kubelet registers with and that NFD sets as well. Each of the two sets its own
// value again: NFD within a minute, prelet at a boot with reconcile_labels.
func CheckFeatures(n desired.Node) hcl.Diagnostics {
	var found origin.Collector
	writesFeatures := false
	owned := map[string]string{} // files, by the key of a label
	for _, f := range n.Files {
		if path.Dir(f.Path) != featureFolder || f.Kind == desired.Missing || strings.HasPrefix(path.Base(f.Path), ".") {
			continue
		}
		writesFeatures = true
		for _, key := range listFeatureLabels(f.Text.Template()) {
			owned[key] = f.Path
		}
	}

	for _, l := range n.Labels {
		at := origin.LastRange(l.Origins)
		domain, _, _ := strings.Cut(l.Key, "/")
		isNFDs := domain == "feature.node.kubernetes.io" || strings.HasSuffix(domain, ".feature.node.kubernetes.io")

		switch file := owned[l.Key]; {
		case file != "":
			found.Warn(fault.LabelShared, at, "Two programs set label "+l.Key,
				"The kubelet registers with it, and NFD sets it from %s, which this site writes. "+
					"Write it in one of the two places only.", file)
		case isNFDs && writesFeatures:
			found.Warn(fault.LabelShared, at, "Label "+l.Key+" is in NFD's domain",
				"NFD sets and removes labels with this prefix, and this site writes files for it. "+
					"Move the label into nfd_features(), or use a domain of your own.")
		case isNFDs:
			found.Note(fault.LabelShared, at, "Label "+l.Key+" is in NFD's domain",
				"If NFD runs in the cluster, it sets and removes labels with this prefix.")
		}
	}

	return found.Diags
}

// listFeatureLabels returns the keys of a feature file that become labels. A directive "# +no-label" excludes the next
// feature. Source: node-feature-discovery, source/local/local.go, parseFeatureFile.
func listFeatureLabels(text string) (keys []string) {
	isHidden := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "# +no-label":
			isHidden = true
		case line == "" || strings.HasPrefix(line, "#"):
		case isHidden:
			isHidden = false
		default:
			key, _, _ := strings.Cut(line, "=")
			if !strings.Contains(key, "/") {
				key = "feature.node.kubernetes.io/" + key
			}
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)

	return slices.Compact(keys)
}
