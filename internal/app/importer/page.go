package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
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

// page is what the site's text shows. What the script would add by itself is left out where init-config says it.
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

// resolve decides between what init-config says and what the script adds to it. The script passed both.
func (r *reader) resolve(p *page) {
	own := func(key, value string) bool {
		n := slices.IndexFunc(p.Labels, func(l label) bool { return l.Key == key })
		if n < 0 {
			return true
		}
		if p.Labels[n].Value != value {
			r.note(fault.Duplicate, p.Labels[n].at, "Label "+key+" is init-config's", "The script set it as well, by itself, and passed both to the kubelet in random order. The site has only what stands here; to have it from the machine, remove it here and import again.")
		}
		return false
	}
	taints := func(key, value string) bool {
		n := slices.IndexFunc(p.Taints, func(t taint) bool { return t.Key == key && t.Effect == "NoSchedule" })
		if n >= 0 && p.Taints[n].Value != value {
			r.note(fault.Duplicate, p.Taints[n].at, "Taint "+key+" is init-config's", "The script set it as well, by itself, and passed both to the kubelet in random order. The site has only what stands here; to have it from the machine, remove it here and import again.")
			return false
		}
		return true
	}
	instance := slices.IndexFunc(p.Labels, func(l label) bool { return l.Key == labelInstance })
	p.Proxy = own(labelProxy, "lb-masquerade")
	p.Port = own(labelPort, "")
	if instance >= 0 && p.Labels[instance].Value == virtualMachine {
		p.Subnet = own(labelSubnet, "")
	}
	p.GPULabel, p.GPUTaint = own(labelGPU, ""), taints(taintGPU, "true")
	p.SRIOVLabel, p.SRIOVTaint = own(keySRIOV, ""), taints(keySRIOV, "")
	p.TaintsInFlag = olderThan(p.Version, 23)
}

// olderThan says whether a version is known to be before 1.minor.
func olderThan(version string, minor int) bool {
	var major, have int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &have)
	return n == 2 && (major < 1 || major == 1 && have < minor)
}

// render makes the site's text, in its canonical form.
func (p page) render() ([]byte, error) {
	text, err := p.text()
	if err != nil {
		return nil, err
	}

	out, diags := site.FormatFile(FileName, []byte(text))
	if diags.HasErrors() {
		return nil, diags
	}
	return out, nil
}

func list(texts []string) string {
	out := make([]string, len(texts))
	for i, s := range texts {
		out[i] = site.Quote(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// comment is a text that cannot leave its comment.
func comment(s string) string { return strings.Trim(strconv.QuoteToGraphic(s), `"`) }

// open lists what a person should look at before the site is used.
func (p page) open() (out []string) {
	if p.SRIOVLabel || p.SRIOVTaint {
		out = append(out, "Open vSwitch is asked by a detector named ovs, which must be installed: without it no node has sriov-type, and each boot is degraded. Where there is no Open vSwitch, remove the block detector \"ovs\" and what is called sriov.")
	}
	if p.GPULabel {
		out = append(out, "A node with NVIDIA GPUs of several kinds has the label of the first one by PCI address, as GPU 0 was for the script.")
	}
	if len(p.Labels) > 0 || len(p.Taints) > 0 {
		out = append(out, "Labels and taints of this init-config are those of every node with this site. Where nodes differ, make variables of them, or a site for each kind.")
	}
	return out
}

// mended lists the script's faults that would have met this init-config's nodes.
func (p page) mended() []string {
	out := []string{
		"The cluster's CA is pinned: the script fetched it without verifying TLS.",
		"The token is a credential of prelet.service: the script had it on its command line and in its log.",
		"A node that has joined keeps its identity and gets no file to join with: the script wrote it again.",
		"All files are written or none, and a second run writes nothing: the script could leave half a file, and changed files each time.",
		"The kubelet is verified after its restart, and the last good configuration comes back if it is ill: the script looked at nothing.",
		"Several apiservers can stand in cluster.servers, and requests are retried: the script had one server and one try.",
		"Labels, taints and flags have an order, and a key has one value: the script printed sets as they came.",
	}
	if p.CPUs != "" || p.Memory != "" {
		out = append(out, "Reserved resources are set in kubeReserved and systemReserved: the script replaced every line of the text that had \"cpu: \" in it.")
	}
	if p.GPULabel {
		out = append(out, "accelerator says nvidia once: a GPU that calls itself NVIDIA was nvidia-nvidia-… .")
	}
	if p.SRIOVLabel || p.SRIOVTaint {
		out = append(out, "sriov-type has the speed of the ConnectX-4 Lx itself: the script took that of eth0.")
	}
	return out
}
