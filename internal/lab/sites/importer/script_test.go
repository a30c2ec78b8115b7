package importer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// This file is init-k8s-node.py, written again in Go from its description, step by step and without any code of
// prelet: the output of import is compared with it. Where the script had a fault that prelet must not have, a comment
// with "Fixed:" describes the right behaviour, which is expected instead.

// machine is what the script saw of a node.
type machine struct {
	cpus       int
	memoryKiB  int64
	interfaces map[string]string // first IPv4 address
	gpus       []string          // names as nvidia-smi prints them
	cards      []card
	dpdk       bool // Open vSwitch shows dpdk
	portConf   string
}

// card is a network card: what lspci calls it, and its link's speed in Gbit/s, 0 while that is down.
type card struct {
	id, lspci string
	gbps      int
}

// configMap is kube-system/kubelet-config-<k8s_version>.
type configMap struct{ vmKubeletConfig, defaultKubelet string }

// outcome is what the script left on a node.
type outcome struct {
	Labels     map[string]string
	Taints     []string // sorted
	Flags      map[string]string
	Config     map[string]any
	Kubeconfig map[string]string
	CA         string
	Empty      []string // files that it made if missing
	Folders    []string
	Name       string // of the ConfigMap
}

// script is the whole script. ca is the CA in kube-public/cluster-info. Fixed: it is read only over verified TLS.
func script(initConfig string, m machine, cm configMap, ca string) (outcome, error) {
	var in struct {
		APIServer       string `json:"apiserver"`
		K8sVersion      string `json:"k8s_version"`
		ListenInterface string `json:"listenInterface"`
		NodeLabels      string `json:"nodeLabels"`
		NodeTaints      string `json:"nodeTaints"`
		Resources       struct {
			CPURemained    *int   `json:"cpuRemained"`
			MemoryReserved string `json:"memoryReserved"`
		} `json:"resources"`
	}
	in.K8sVersion = "1.11"
	if err := json.Unmarshal([]byte(initConfig), &in); err != nil {
		return outcome{}, err
	}
	out := outcome{
		Labels:     map[string]string{},
		Kubeconfig: map[string]string{},
		Name:       "kubelet-config-" + in.K8sVersion,
	}

	// 2. The address.
	address := ""
	if in.ListenInterface != "" {
		if address = m.interfaces[in.ListenInterface]; address == "" {
			return out, errors.New("no address")
		}
	}

	// 3. The GPU. Fixed: nvidia- is not put before NVIDIA.
	gpu := ""
	if len(m.gpus) > 0 {
		gpu = "nvidia-" + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(m.gpus[0], "NVIDIA ")), " ", "-")
	}

	// 4. The network card. Fixed: the speed is the card's and not eth0's, and a link that is down has none.
	nic := ""
	find := func(name string) *card {
		i := slices.IndexFunc(m.cards, func(c card) bool { return strings.Contains(c.lspci, name) })
		if i < 0 {
			return nil
		}
		return &m.cards[i]
	}
	if find("MT27710") != nil {
		for _, c := range m.cards {
			if strings.Contains(c.lspci, "MT27710") && c.gbps > 0 && nic == "" {
				nic = fmt.Sprintf("mlnx-%dG", c.gbps)
			}
		}
	} else if find("XXV710") != nil {
		nic = "intel-25G"
	} else if find(" X710") != nil {
		nic = "intel-10G"
	} else if find("82599") != nil {
		nic = "intel-10G"
	}
	if !m.dpdk {
		nic = ""
	}

	// 5. The CA and the file to join with.
	server := in.APIServer
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	out.CA = ca
	out.Kubeconfig = map[string]string{
		"cluster": "kubernetes",
		"user":    "tls-bootstrap-token-user",
		"context": "tls-bootstrap-token-user@kubernetes",
		"server":  server,
		"ca":      ca,
	}

	// 6. The ConfigMap.
	if strings.TrimSpace(cm.vmKubeletConfig) == "" || strings.TrimSpace(cm.defaultKubelet) == "" {
		return out, errors.New("the ConfigMap is empty")
	}

	// 7. The kubelet's configuration. Fixed: the two reservations are fields of the document, not lines of a text.
	if err := yaml.Unmarshal([]byte(cm.vmKubeletConfig), &out.Config); err != nil {
		return out, err
	}
	if address != "" && out.Config["address"] == "0.0.0.0" {
		out.Config["address"] = address
	}
	reserve := func(resource, amount string) {
		for _, field := range []string{"kubeReserved", "systemReserved"} {
			list, _ := out.Config[field].(map[string]any)
			if list == nil {
				list = map[string]any{}
			}
			list[resource] = amount
			out.Config[field] = list
		}
	}
	if n := in.Resources.CPURemained; n != nil && *n < m.cpus {
		amount := strconv.Itoa((m.cpus - *n) / 2)
		if (m.cpus-*n)%2 == 1 {
			amount += "500m"
		}
		reserve("cpu", amount)
	}
	if s := in.Resources.MemoryReserved; s != "" {
		percent, err := strconv.Atoi(strings.TrimSuffix(s, "%"))
		if err != nil {
			return out, err
		}
		gib := int(m.memoryKiB / 1024 / 1024)
		reserve("memory", strconv.Itoa(gib*percent/100/2)+"Gi")
	}
	if path, _ := out.Config["resolvConf"].(string); path != "" {
		out.Empty = append(out.Empty, path)
	}

	// 8. The flags. Fixed: of a key with two values, init-config counts more than the script, and that more than the text.
	out.Flags = flagsOf(cm.defaultKubelet)
	labels := func(list string) {
		for _, item := range strings.Split(list, ",") {
			if item = strings.TrimSpace(item); item != "" {
				k, v, _ := strings.Cut(item, "=")
				out.Labels[k] = v
			}
		}
	}
	taints := map[string]string{} // by key and effect
	taint := func(list string) {
		for _, item := range strings.Split(list, ",") {
			if item = strings.TrimSpace(item); item != "" {
				pair, effect, _ := strings.Cut(item, ":")
				k, v, _ := strings.Cut(pair, "=")
				taints[k+":"+effect] = v
			}
		}
	}
	labels(out.Flags["node-labels"])
	taint(out.Flags["register-with-taints"])
	delete(out.Flags, "node-labels")
	delete(out.Flags, "register-with-taints")
	labels("network.netease.com/kube-proxy=lb-masquerade")
	if m.portConf != "" {
		var port struct {
			ID       string `json:"id"`
			FixedIPs []struct {
				SubnetID string `json:"subnet_id"`
			} `json:"fixed_ips"`
		}
		if err := json.Unmarshal([]byte(m.portConf), &port); err != nil {
			return out, err
		}
		labels("node.netease.com/port_id=" + port.ID)
		if slices.Contains(
			strings.Split(strings.ReplaceAll(in.NodeLabels, " ", ""), ","),
			"beta.kubernetes.io/instance-type=virtualMachine",
		) {
			labels("network.netease.com/single-subnet-id=" + port.FixedIPs[0].SubnetID)
		}
	}
	if gpu != "" {
		labels("accelerator=" + gpu)
		taint("nvidia.com/gpu=true:NoSchedule")
	}
	if nic != "" {
		labels("network.netease.com/sriov-type=" + nic)
		taint("network.netease.com/sriov-type=" + nic + ":NoSchedule")
	}
	labels(in.NodeLabels)
	taint(in.NodeTaints)
	for _, k := range slices.Sorted(maps.Keys(taints)) {
		key, effect, _ := strings.Cut(k, ":")
		out.Taints = append(out.Taints, key+"="+taints[k]+":"+effect)
	}
	slices.Sort(out.Taints)
	if address != "" {
		out.Flags["node-ip"], out.Flags["hostname-override"] = address, address
	}
	if dir := out.Flags["log-dir"]; dir != "" {
		out.Folders = append(out.Folders, dir)
	}
	return out, nil
}

// flagsOf reads KUBELET_EXTRA_ARGS of an environment file, as far as such a file has one assignment, in double quotes
// or in none, and lines that end in a backslash. Both spellings of a flag, and short ones.
func flagsOf(text string) map[string]string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	value := ""
	for _, line := range strings.Split(text, "\n") {
		if after, ok := strings.CutPrefix(strings.TrimSpace(line), "KUBELET_EXTRA_ARGS="); ok {
			value = strings.Trim(after, `"`)
		}
	}
	out := map[string]string{}
	words := strings.Fields(value)
	for i := 0; i < len(words); i++ {
		name, val, found := strings.Cut(strings.TrimLeft(words[i], "-"), "=")
		if !found && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++
			val = words[i]
		}
		out[name] = val
	}
	return out
}
