package importer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/hashicorp/hcl/v2/hclwrite"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
)

// The templates of sites, by imported file.
var (
	//go:embed site.hcl.tmpl
	siteTemplate string
	//go:embed join.hcl.tmpl
	joinTemplate string
)

// The keys that the script itself sets.
const (
	labelProxy  = "network.netease.com/kube-proxy"
	labelPort   = "node.netease.com/port_id"
	labelSubnet = "network.netease.com/single-subnet-id"
	labelGPU    = "accelerator"
	keySRIOV    = "network.netease.com/sriov-type"
	taintGPU    = "nvidia.com/gpu"

	labelInstance  = "beta.kubernetes.io/instance-type"
	virtualMachine = "virtualMachine"
)

// page is the data of the site's template. The flags are which labels and taints of the script it sets; those in the
// init-config win over them.
type page struct {
	config
	Source     string
	Hashes     []string
	Credential string

	Proxy, Port, Subnet    bool
	GPULabel, GPUTaint     bool
	SRIOVLabel, SRIOVTaint bool
	TaintsInFlag           bool
}

// resolve decides between the init-config and the script's own labels and taints. The script passed both.
func (r *reader) resolve(p *page) {
	isVM := slices.ContainsFunc(p.Labels, func(l label) bool {
		return l.Key == labelInstance && l.Value == virtualMachine
	})

	p.Proxy = r.hasScriptLabel(p, labelProxy, "lb-masquerade")
	p.Port = r.hasScriptLabel(p, labelPort, "")
	p.Subnet = isVM && r.hasScriptLabel(p, labelSubnet, "")
	p.GPULabel = r.hasScriptLabel(p, labelGPU, "")
	p.GPUTaint = r.hasScriptTaint(p, taintGPU, "true")
	p.SRIOVLabel = r.hasScriptLabel(p, keySRIOV, "")
	p.SRIOVTaint = r.hasScriptTaint(p, keySRIOV, "")
	p.TaintsInFlag = isOlderThan(p.Version, 23)
}

// hasScriptLabel reports whether the site sets a label of the script: the init-config does not have it.
func (r *reader) hasScriptLabel(p *page, key, value string) bool {
	i := slices.IndexFunc(p.Labels, func(l label) bool {
		return l.Key == key
	})
	if i >= 0 && p.Labels[i].Value != value {
		r.noteScript("Label " + key)
	}

	return i < 0
}

// hasScriptTaint reports whether the site sets a taint of the script: the init-config does not have it with another
// value.
func (r *reader) hasScriptTaint(p *page, key, value string) bool {
	i := slices.IndexFunc(p.Taints, func(t kubelet.Taint) bool {
		return t.Key == key && t.Effect == "NoSchedule"
	})
	if i < 0 || p.Taints[i].Value == value {
		return true
	}
	r.noteScript("Taint " + key)

	return false
}

func (r *reader) noteScript(what string) {
	r.note(fault.Duplicate, what+" is init-config's",
		"The script also set it, and passed both to the kubelet in random order. The site has only the init-config's; "+
			"to detect it on the machine, remove it here and import again.")
}

// isOlderThan reports whether a version is before 1.minor.
func isOlderThan(version string, minor int) bool {
	var major, actual int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &actual)

	return n == 2 && (major < 1 || major == 1 && actual < minor)
}

// literal returns a value as an expression of the site's language.
func literal(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	t, err := ctyjson.ImpliedType(text)
	if err != nil {
		return "", err
	}
	c, err := ctyjson.Unmarshal(text, t)
	if err != nil {
		return "", err
	}

	return string(hclwrite.TokensForValue(c).Bytes()), nil
}

// render returns a site's text in its canonical form.
func render(page string, data any) ([]byte, error) {
	list := func(texts []string) string {
		quoted := make([]string, len(texts))
		for i, s := range texts {
			quoted[i] = lang.Quote(s)
		}

		return "[" + strings.Join(quoted, ", ") + "]"
	}
	comment := func(s string) string { return strings.Trim(strconv.QuoteToGraphic(s), `"`) } // in one line

	t, err := template.New(FileName).
		Funcs(template.FuncMap{
			"quote": lang.Quote, "list": list, "comment": comment, "literal": literal,
		}).
		Parse(page)
	if err != nil {
		return nil, err
	}

	var text strings.Builder
	if err := t.Execute(&text, data); err != nil {
		return nil, err
	}

	out, diags := lang.FormatFile(FileName, []byte(text.String()))
	if diags.HasErrors() {
		return nil, diags
	}

	return out, nil
}

// open returns the decisions for a person before the site is used.
func (p page) open() (out []string) {
	if p.SRIOVLabel || p.SRIOVTaint {
		out = append(
			out,
			"Open vSwitch is read by a detector named ovs, which must be installed: without it no "+
				"node has sriov-type, and each boot is degraded. Without Open vSwitch, remove the block detector "+
				"\"ovs\" and all parts named sriov.",
		)
	}
	if p.GPULabel {
		out = append(
			out,
			"A node with NVIDIA GPUs of several kinds has the label of the first one by PCI address, "+
				"as GPU 0 was for the script.",
		)
	}
	if len(p.Labels) > 0 || len(p.Taints) > 0 {
		out = append(
			out,
			"Every node with this site gets the labels and taints of this init-config. "+
				"Where nodes differ, make variables of them, or a site for each kind.",
		)
	}

	return out
}

// differences returns the faults of the script that this init-config's nodes no longer have.
func (p page) differences() []string {
	out := []string{
		"The cluster's CA is pinned: the script fetched it without verifying TLS.",
		"The token is a credential of prelet.service: the script had it on its command line and in its log.",
		"A node that has joined keeps its identity and gets no file to join with: the script wrote it again.",
		"All files are written or none, and a second run writes nothing: the script could leave half a file, " +
			"and changed files each time.",
		"The kubelet is verified after its restart and rolled back if it is unhealthy: the script did not check it.",
		"cluster.servers may list several apiservers, and requests are retried: the script had one server and one try.",
		"Labels, taints and flags have an order, and a key has one value: the script printed sets in random order.",
	}
	if p.CPUs != "" || p.Memory != "" {
		out = append(out, "Reserved resources are set in kubeReserved and systemReserved: "+
			"the script replaced every line of the text that had \"cpu: \" in it.")
	}
	if p.GPULabel {
		out = append(out, "accelerator contains nvidia once: the script wrote nvidia-nvidia-… for some GPUs.")
	}
	if p.SRIOVLabel || p.SRIOVTaint {
		out = append(out, "sriov-type has the speed of the ConnectX-4 Lx itself: the script took that of eth0.")
	}

	return out
}
