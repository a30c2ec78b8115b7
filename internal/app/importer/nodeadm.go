package importer

import (
	"encoding/base64"
	"net/netip"
	"regexp"
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
	r.leave(spec, "Write the runtime's configuration with `file` blocks, or into the image", "containerd")
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
		r.add(origin.Error(fault.WrongType, c.at("apiServerEndpoint"), "apiServerEndpoint cannot be used", "%s.", err))
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
		"hairpinMode":              "hairpin-veth",
		"logging":                  map[string]any{"verbosity": 2},
		"protectKernelDefaults":    true,
		"readOnlyPort":             0,
		"serializeImagePulls":      false,
		"serverTLSBootstrap":       true,
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
		"The site's reserve policy counts the pods: write max_pods for instances that do not run 110. nodeadm " +
			"computes it from the network interfaces of the instance's type.",
		"The image needs the program aws, with which the kubelet gets its token, and a role that EKS maps to nodes.",
		"Prelet does not write containerd's configuration, and no image credential provider for ECR.",
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
	return []string{
		"The kubelet's configuration is one file, /var/lib/kubelet/config.yaml: nodeadm writes the user's part as a " +
			"drop-in.",
		"The reserved resources are those of reserve's policy eks, which are nodeadm's.",
		"All files are written or none, the kubelet is verified, and a second run writes nothing.",
	}
}
