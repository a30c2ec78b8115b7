package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/known"
	"github.com/prelet/prelet/schema"
)

const (
	defaultVersion = "1.11" // of the script
	maxInterface   = 15     // IFNAMSIZ of linux/if.h without the zero byte
)

// initConfig is the file of the script.
type initConfig struct {
	APIServer string          `json:"apiserver"`
	Version   json.RawMessage `json:"k8s_version"`
	Interface string          `json:"listenInterface"`
	Labels    string          `json:"nodeLabels"`
	Taints    string          `json:"nodeTaints"`
	Resources struct {
		CPUs   json.RawMessage `json:"cpuRemained"`
		Memory json.RawMessage `json:"memoryReserved"`
	} `json:"resources"`
}

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
	common
	Version   string // after kubelet-config- in the ConfigMap's name
	Interface string // "": the base's address is not changed
	CPUs      string // that remain for pods; "": the base's reservation is not changed
	Memory    string // "10%"; "": as CPUs

	Proxy, Port, Subnet    bool
	GPULabel, GPUTaint     bool
	SRIOVLabel, SRIOVTaint bool
	TaintsInFlag           bool
}

// importInitConfig imports the init-config of the script. Of a duplicate key the last one counts, as in Python.
func (r *reader) importInitConfig(source string, src []byte, o Values) Imported {
	var in initConfig
	for _, key := range r.decode(src, &in) {
		known := []string{"apiserver", "k8s_version", "listenInterface", "nodeLabels", "nodeTaints", "resources"}
		key, isResource := strings.CutPrefix(key, "resources.")
		if isResource {
			known = []string{"cpuRemained", "memoryReserved"}
		}
		r.warn(fault.UnknownArgument, fmt.Sprintf("%q is left out: the script does not read it", shorten(key, 28)),
			"It does not change the site. %s", schema.Suggest(key, known))
	}
	if r.diags.HasErrors() {
		return Imported{}
	}

	p := page{common: common{
		Source:     source,
		Hashes:     o.Hashes,
		Servers:    o.Servers,
		Credential: o.Credential,
	}}
	if len(p.Servers) == 0 && in.APIServer != "" {
		p.Servers = []string{strings.TrimSpace(in.APIServer)}
	}
	r.checkServers(&p.common, "Write \"apiserver\": \"HOST:6443\".")
	p.Version = r.readVersion(in.Version)
	p.Interface = r.readInterface(in.Interface)
	p.CPUs = r.readCPUs(in.Resources.CPUs)
	p.Memory = r.readMemory(in.Resources.Memory)
	r.addLabels(&p.common, in.Labels)
	r.addTaints(&p.common, in.Taints)
	r.resolve(&p)

	return r.finish("init-k8s-node.py", siteTemplate, p, o)
}

// readScalar returns a text, or a number as it is written. Null, "" and a missing key are "".
func (r *reader) readScalar(key string, raw json.RawMessage) (text string, isNumber bool) {
	var number json.Number
	switch {
	case raw == nil, json.Unmarshal(raw, &text) == nil:
		return strings.TrimSpace(text), false
	case json.Unmarshal(raw, &number) != nil:
		r.refuse(fault.WrongType, "Wrong type for "+key, "A string is needed.")
	}

	return number.String(), true
}

func (r *reader) readVersion(raw json.RawMessage) string {
	s, isNumber := r.readScalar("k8s_version", raw)
	if s == "" {
		return defaultVersion
	}

	if isNumber {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || strconv.FormatFloat(f, 'f', -1, 64) != s {
			r.refuse(fault.WrongType, "k8s_version is a number that is not what it looks like",
				"To JSON, %s is another text. Write it in quotes: %q.", s, s)
			return ""
		}
		r.note(fault.WrongType, "k8s_version is a number", "It was read as %q. Quotes keep 1.20 from being 1.2.", s)
	}
	if e := content.IsDNS1123Subdomain("kubelet-config-" + s); len(e) > 0 {
		r.refuse(fault.WrongType, "k8s_version cannot be used",
			"Invalid ConfigMap name kubelet-config-%s: %s.", s, strings.Join(e, "; "))
	}

	return s
}

func (r *reader) readInterface(name string) string {
	name = strings.TrimSpace(name)
	if len(name) > maxInterface || strings.ContainsAny(name, "/ \t\n") {
		r.refuse(fault.WrongType, "listenInterface is not an interface",
			"The name of an interface has at most %d characters and no space or slash.", maxInterface)
	}

	return name
}

func (r *reader) readCPUs(raw json.RawMessage) string {
	s, _ := r.readScalar("cpuRemained", raw)
	cpus, err := strconv.ParseUint(s, 10, 16)
	switch {
	case s == "":
		return ""
	case err != nil:
		r.refuse(fault.WrongType, "cpuRemained is not a number of CPUs",
			"%s: write a whole number, of the CPUs that pods may use.", shorten(s, 8))
	case cpus == 0:
		r.warn(fault.ReserveRefused, "cpuRemained is left out: it is 0",
			"It would leave no CPU to pods. The base's reservation of CPU is not changed; "+
				"write remainder { cpus = … } in the site to change it.")
		return ""
	}

	return strconv.FormatUint(cpus, 10)
}

func (r *reader) readMemory(raw json.RawMessage) string {
	s, _ := r.readScalar("memoryReserved", raw)
	percent, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(s, "%")), 10, 8)
	switch {
	case s == "":
		return ""
	case err != nil || percent > 100:
		r.refuse(fault.WrongType, "memoryReserved is not a percentage",
			"%s: write a whole number from 0 to 100 and %%, as \"10%%\".", shorten(s, 8))
	case percent == 100:
		r.warn(fault.ReserveRefused, "memoryReserved is left out: it is 100%",
			"It would leave no memory to pods. The base's reservation of memory is not changed; "+
				"write remainder { memory = … } in the site to change it.")
		return ""
	case !strings.HasSuffix(s, "%"):
		r.note(fault.WrongType, "memoryReserved has no %", "It was read as %d%%.", percent)
	}

	return fmt.Sprintf("%d%%", percent)
}

// resolve decides between the init-config and the script's own labels and taints. The script passed both.
func (r *reader) resolve(p *page) {
	isVM := slices.Contains(p.Labels, label{labelInstance, virtualMachine})

	p.Proxy = r.hasScriptLabel(p, labelProxy, "lb-masquerade")
	p.Port = r.hasScriptLabel(p, labelPort, "")
	p.Subnet = isVM && r.hasScriptLabel(p, labelSubnet, "")
	p.GPULabel = r.hasScriptLabel(p, labelGPU, "")
	p.GPUTaint = r.hasScriptTaint(p, taintGPU, "true")
	p.SRIOVLabel = r.hasScriptLabel(p, keySRIOV, "")
	p.SRIOVTaint = r.hasScriptTaint(p, keySRIOV, "")
	minor, isKnown := known.Minor(p.Version)
	p.TaintsInFlag = isKnown && minor < 23
}

// hasScriptLabel reports whether the site sets a label of the script: the init-config does not have it.
func (r *reader) hasScriptLabel(p *page, key, value string) bool {
	i := slices.IndexFunc(p.Labels, func(l label) bool { return l.Key == key })
	if i >= 0 && p.Labels[i].Value != value {
		r.noteScript("Label " + key)
	}

	return i < 0
}

// hasScriptTaint reports whether the site sets a taint of the script: the init-config does not have it with another
// value.
func (r *reader) hasScriptTaint(p *page, key, value string) bool {
	isOther := slices.ContainsFunc(p.Taints, func(t kubelet.Taint) bool {
		return t.Key == key && t.Effect == "NoSchedule" && t.Value != value
	})
	if isOther {
		r.noteScript("Taint " + key)
	}

	return !isOther
}

func (r *reader) noteScript(what string) {
	r.note(fault.Duplicate, what+" is init-config's",
		"The script also set it, and passed both to the kubelet in random order. The site has only the init-config's; "+
			"to detect it on the machine, remove it here and import again.")
}
