package importer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/apiaddress"
)

const nodeadmVersion = "node.eks.aws/v1alpha1"

// eksHost finds the region in the name of an EKS endpoint: ID.gr7.REGION.eks.amazonaws.com.
var eksHost = regexp.MustCompile(`\.([a-z]{2}(?:-[a-z]+)+-[0-9])\.eks\.amazonaws\.com(?:\.cn)?(?::|$)`)

// eksPage is the data of the template for a NodeConfig.
type eksPage struct {
	settings
	Source  string
	Cluster string
	Server  string // https://host:port
	Region  string // "": not known
	CA      string // PEM
	DNS     string // of the cluster; "" if the file has no service CIDR
	IsByID  bool   // the Node has the name of the instance's id
	HasOwn  bool   // the file has reserved resources of its own, so none are computed
	HasPods bool   // the file says how many pods the node takes
	Pods    string // for the policy, which writes maxPods; "": the patch or the flags have it
}

// readNodeConfig reads a NodeConfig of nodeadm. Its names and types are those of nodeadm/api/v1alpha1 of
// awslabs/amazon-eks-ami; what its newer versions have and is not here is reported as not imported.
func (r *reader) readNodeConfig(doc *lang.JSONNode) eksPage {
	p := eksPage{settings: newSettings()}
	f := r.object(doc, "NodeConfig", "apiVersion", "kind", "metadata", "spec")
	if v := r.text(f, "apiVersion"); v != nodeadmVersion {
		r.add(origin.Error(fault.WrongType, f.placeOf("apiVersion", "kind"), "This version of NodeConfig is not known",
			"%s is needed.", nodeadmVersion))
		return p
	}
	spec := r.object(f.values["spec"], "spec", "cluster", "containerd", "instance", "kubelet", "featureGates")
	r.leave(spec, "Write it in a `runtime` block of the write stage, or into the image", "containerd")
	r.leave(spec, "It is about disks and the network of the instance, which prelet does not set up", "instance")

	if n := spec.values["cluster"]; n == nil {
		r.add(origin.Error(fault.MissingArgument, f.placeOf("spec", "kind"), "No cluster",
			"Write spec.cluster with name, apiServerEndpoint, certificateAuthority and cidr. "+
				"nodeadm finds them in the user data or with DescribeCluster; prelet asks neither."))
	} else {
		r.readEKSCluster(&p, spec)
	}
	r.readEKSKubelet(&p, spec.values["kubelet"])
	gates := r.object(spec.values["featureGates"], "featureGates", "InstanceIdNodeName")
	r.checkBool(gates, "InstanceIdNodeName")
	if n := gates.values["InstanceIdNodeName"]; n != nil {
		p.IsByID = n.Kind == lang.JSONBool && n.Text == "true"
	}

	return p
}

func (r *reader) readEKSCluster(p *eksPage, spec fields) {
	c := r.object(spec.values["cluster"], "cluster",
		"name", "apiServerEndpoint", "certificateAuthority", "cidr", "enableOutpost", "id")
	r.leave(c, "Nodes on an AWS Outpost join in another way, which prelet does not know", "enableOutpost", "id")
	for _, name := range []string{"name", "apiServerEndpoint", "certificateAuthority"} {
		if r.text(c, name) == "" {
			r.add(origin.Error(fault.MissingArgument, c.placeIn(spec, name, "cluster"), "cluster."+name+" is missing",
				"prelet does not call DescribeCluster: write the value."))
		}
	}
	p.Cluster = r.text(c, "name")
	if r.diags.HasErrors() {
		return
	}

	endpoint := r.text(c, "apiServerEndpoint")
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	if rest := strings.TrimPrefix(endpoint, "https://"); !strings.Contains(rest, ":") && !strings.Contains(rest, "/") {
		endpoint += ":443" // as a URL has it
	}
	address, err := apiaddress.Parse(endpoint)
	if err != nil {
		r.add(origin.Error(fault.WrongType, c.at("apiServerEndpoint"), "apiServerEndpoint cannot be used", serverHelp))
	}
	p.Server = "https://" + address
	if m := eksHost.FindStringSubmatch(address); m != nil {
		p.Region = m[1]
	}

	pem, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(r.text(c, "certificateAuthority")), ""))
	if err != nil || !strings.Contains(string(pem), "-----BEGIN CERTIFICATE-----") || !isPrintable(string(pem)) {
		r.add(origin.Error(fault.WrongType, c.at("certificateAuthority"), "This is not a certificate",
			"The base64 text of a PEM file is needed, as DescribeCluster returns it."))
	}
	p.CA = strings.TrimSpace(string(pem)) + "\n"
	p.DNS = r.readServiceCIDR(c)
}

// isPrintable reports whether a text has only ASCII and ends of lines, as a PEM file.
func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return c != '\n' && c != '\r' && (c < ' ' || c > '~')
	})
}

// placeIn returns the place of a key, or else of a key of the object around it.
func (f fields) placeIn(outer fields, name, around string) hcl.Range {
	if at, ok := f.keys[name]; ok {
		return at
	}

	return outer.keys[around]
}

// readServiceCIDR returns the address of the cluster's DNS server: the tenth of the services, as EKS has it.
func (r *reader) readServiceCIDR(c fields) string {
	text := r.text(c, "cidr")
	if text == "" {
		return ""
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		r.add(origin.Error(fault.WrongType, c.at("cidr"), "cidr is not a range of addresses",
			"Write it as 10.100.0.0/16."))
		return ""
	}
	bytes := prefix.Masked().Addr().AsSlice()
	bytes[len(bytes)-1] = 10
	address, _ := netip.AddrFromSlice(bytes)

	return address.String()
}

func (r *reader) readEKSKubelet(p *eksPage, n *lang.JSONNode) {
	k := r.object(n, "kubelet", "config", "flags", "maxPodsExpression")
	r.leave(k, "It depends on the instance's type: write maxPods in patch of the site", "maxPodsExpression")
	if c := k.values["config"]; c != nil && c.Kind == lang.JSONObject {
		patch := toAny(c).(map[string]any)
		delete(patch, "apiVersion")
		delete(patch, "kind")
		for _, key := range c.Keys {
			r.locate(key.Text, key.Range)
		}
		p.Patch = patch
	} else if c != nil && c.Kind != lang.JSONNull {
		r.add(origin.Error(fault.WrongType, c.Range, "Wrong type for config", "An object is needed, not %s.", c.Kind))
	}

	for _, item := range r.list(k, "flags") {
		flags := kubelet.FlagsOf(strings.Fields(item.Text))
		if item.Kind != lang.JSONString || len(flags.Stray()) > 0 || len(flags.Names()) == 0 {
			r.add(origin.Warning(fault.FlagsInvalid, item.Range, "A flag is not imported", "Write it as --NAME=VALUE."))
			continue
		}
		for _, name := range flags.Names() {
			text, _ := flags.Lookup(name)
			r.addFlag(&p.settings, name, text, item.Range)
		}
	}
	r.dropTaints(&p.settings, k.at("config"))
	r.readReserved(p, k)
	p.movePods()
}

// movePods gives the number of pods to the policy, which reserves memory for each. A flag replaces the field. What is
// no count stays where it is, for the check of the site.
func (p *eksPage) movePods() {
	const field, flag = "maxPods", "max-pods"
	text := fmt.Sprint(p.Patch[field])
	fromFlag, hasFlag := p.Flags[flag]
	if hasFlag {
		text = fmt.Sprint(fromFlag)
	}
	_, isNumber := p.Patch[field].(json.Number)
	p.HasPods = hasFlag || p.Patch[field] != nil
	n, err := strconv.ParseUint(text, 10, 31)
	if p.HasOwn || err != nil || n == 0 || !hasFlag && !isNumber {
		return
	}

	p.Pods = text
	if hasFlag {
		delete(p.Flags, flag)
	}
	if isNumber {
		delete(p.Patch, field)
	}
}

// readReserved decides who reserves resources. Amounts of the file are in the patch, and one owner has all of them: the
// policy is left out then.
func (r *reader) readReserved(p *eksPage, k fields) {
	const field = "kubeReserved"
	_, hasFlag := p.Flags["kube-reserved"]
	own, isObject := p.Patch[field].(map[string]any)
	isNull := p.Patch[field] == nil
	p.HasOwn = len(own) > 0 || hasFlag
	if !isObject && !isNull {
		r.add(origin.Error(fault.WrongType, r.places[field], "Wrong type for "+field,
			"An object is needed, such as { cpu: 100m }."))
		return
	}
	if !p.HasOwn {
		delete(p.Patch, field) // an empty object or null changes nothing for nodeadm
		return
	}
	if hasFlag {
		return // it replaces all amounts
	}

	var missing []string
	for _, name := range []string{"cpu", "memory"} {
		if own[name] == nil {
			missing = append(missing, field+"."+name)
		}
	}
	if own["ephemeral-storage"] == nil {
		own["ephemeral-storage"] = "1Gi" // nodeadm's, on all instances
	}
	if len(missing) > 0 {
		r.add(origin.Warning(fault.MissingArgument, r.places[field],
			strings.Join(missing, " and ")+" would not be reserved",
			"nodeadm adds its own amount for each instance. One owner has all amounts in a site, here the file: write "+
				"the missing ones too, or remove kubeReserved for those of reserve's policy eks."))
	}
}

// addDefaultFlags adds the flags that nodeadm sets, unless the file has them.
func (p *eksPage) addDefaultFlags() {
	for name, text := range map[string]any{
		"kubeconfig":     "/var/lib/kubelet/kubeconfig",
		"cloud-provider": "external",
	} {
		if _, isSet := p.Flags[name]; !isSet {
			p.Flags[name] = text
		}
	}
}

// Base is the configuration that nodeadm starts from, as far as it is the same on all instances.
// Source: nodeadm/internal/kubelet/config.go, defaultKubeletSubConfig.
func (p eksPage) Base() map[string]any {
	base := map[string]any{
		"apiVersion": kubelet.ConfigAPIVersion,
		"kind":       kubelet.ConfigKind,
		"address":    "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true, "cacheTTL": "2m0s"},
			"x509":      map[string]any{"clientCAFile": defaultCA},
		},
		"authorization": map[string]any{
			"mode":    "Webhook",
			"webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
		},
		"cgroupDriver":             "systemd",
		"cgroupRoot":               "/",
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"evictionHard": map[string]any{
			"memory.available":  "100Mi",
			"nodefs.available":  "10%",
			"nodefs.inodesFree": "5%",
		},
		"hairpinMode":           "hairpin-veth",
		"logging":               map[string]any{"verbosity": 2},
		"protectKernelDefaults": true,
		"readOnlyPort":          0,
		"serializeImagePulls":   false,
		"serverTLSBootstrap":    true,
		"tlsCipherSuites": []any{
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
			"TLS_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_256_GCM_SHA384",
		},
	}
	if p.DNS != "" {
		base["clusterDNS"] = []any{p.DNS}
	}

	return base
}

// open returns the decisions for a person before the site is used.
func (p eksPage) open() []string {
	out := []string{
		"nodeadm asks EC2 for the node's name and provider id. This site has variables for them: node_name " +
			"(the private DNS name of the instance, or its id) and provider_id (aws:///ZONE/INSTANCE).",
		"The image needs the program aws, with which the kubelet gets its token, and a role that EKS maps to nodes.",
		"nodeadm also configures containerd, and the image credential provider for ECR. This site does not: write a " +
			"`runtime` and a `credential_providers` block in its write stage, or have both in the image.",
	}
	switch {
	case p.HasPods:
	case p.HasOwn:
		out = append(out, "nodeadm computes maxPods from the network interfaces of the instance's type: write it in "+
			"patch for instances that do not run 110.")
	default:
		out = append(out, "The site's reserve policy counts the pods: write max_pods for instances that do not run "+
			"110. nodeadm computes it from the network interfaces of the instance's type.")
	}
	if p.IP == "" {
		out = append(out, "nodeadm sets --node-ip to the instance's address in EC2. This site leaves the address to "+
			"the kubelet: for instances with several, write ip in the node block, with a variable.")
	}
	if p.Name != "" {
		out = append(out, "The file has --hostname-override="+p.Name+", the name of one node: it is the default of "+
			"the variable node_name.")
	}
	if p.DNS == "" {
		out = append(out, "The file has no cidr: write clusterDNS in base.")
	}
	if p.Region == "" {
		out = append(out, "The region is not in the endpoint: it is a variable.")
	}

	return out
}

// differences returns what is different on nodes of the site.
func (p eksPage) differences() []string {
	reserved := "The reserved resources are those of reserve's policy eks, which are nodeadm's."
	if p.HasOwn {
		reserved = "The reserved resources are those of the file, and none is computed."
	}

	return []string{
		"The kubelet's configuration is one file, /var/lib/kubelet/config.yaml: nodeadm writes the user's part as a " +
			"drop-in.",
		reserved,
		"All files are written or none, the kubelet is verified, and a second run writes nothing.",
	}
}
