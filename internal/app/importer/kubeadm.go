package importer

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/platform/apiaddress"
)

const (
	kubeadmGroup = "kubeadm.k8s.io/"
	kubeadmNow   = kubeadmGroup + "v1beta4"
	kubeadmOld   = kubeadmGroup + "v1beta3" // until kubeadm 1.36
	defaultCA    = "/etc/kubernetes/pki/ca.crt"
)

// serverHelp is the message about an address that cannot be used. It does not have the address: that may contain a
// secret in any part.
const serverHelp = "Write HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets and a port from 1 to " +
	"65535. http is refused, and so are a user, a path, a query and a fragment."

// joinPage is the data of the template for a JoinConfiguration.
type joinPage struct {
	settings
	Source        string
	Servers       []string
	Hashes        []string
	DiscoveryFile string
	IsTokenTrust  bool
	Credential    string // "": the file has no token
	CAPath        string // "": the default
	open          []string
	hasTwoTokens  bool // that of discovery is not the one of TLS
}

// readJoin reads a JoinConfiguration. Its names and types are those of cmd/kubeadm/app/apis/kubeadm/v1beta4 of
// Kubernetes 1.37.1. The types themselves are not imported, because they bring all of k8s.io/kubernetes.
func (r *reader) readJoin(doc *lang.JSONNode, o Options) joinPage {
	p := joinPage{settings: newSettings()}
	f := r.object(doc, "JoinConfiguration", joinFields()...)
	version := r.text(f, "apiVersion")
	switch version {
	case kubeadmNow:
	case kubeadmOld:
		r.add(origin.Note(fault.WrongType, f.at("apiVersion"), "v1beta3 is old",
			"kubeadm reads it until 1.36. Its kubeletExtraArgs are an object; all else is imported as v1beta4."))
	default:
		r.add(origin.Error(fault.WrongType, f.at("apiVersion"), "This version of kubeadm's configuration is not known",
			"%s is needed. `kubeadm config migrate --old-config FILE --new-config NEW` of a kubeadm that reads it "+
				"converts it. For v1, which is experimental, it needs --allow-experimental-api too.",
			kubeadmNow))
		return p
	}
	if n := f.values["controlPlane"]; n != nil && n.Kind != lang.JSONNull {
		r.add(origin.Error(fault.UnknownArgument, f.keys["controlPlane"], "A control plane cannot be imported",
			"prelet prepares workers. Join this node with kubeadm, or import the JoinConfiguration of a worker."))
	}
	r.leave(f, "It is about the run of kubeadm, not about the node", "dryRun", "skipPhases")
	r.leave(f, "prelet has timeouts of its own: retry in the cluster block, timeout in the restart stage", "timeouts")
	if ca := r.text(f, "caCertPath"); ca != defaultCA {
		p.CAPath = ca
	}

	r.readRegistration(&p, f.values["nodeRegistration"], version)
	r.readDiscovery(&p, f, o)
	r.readPatchFolder(&p, f.values["patches"], o)
	if _, isSet := p.Patch["containerRuntimeEndpoint"]; !isSet {
		p.open = append(p.open, "The file has no criSocket: kubeadm finds the runtime's socket on the node. The "+
			"kubelet of this site uses the one of kubeadm's instance-config.yaml or of the cluster's configuration, "+
			"else unix:///run/containerd/containerd.sock. For another one, write containerRuntimeEndpoint in patch.")
	}

	return p
}

// joinFields returns the fields of a JoinConfiguration.
func joinFields() []string {
	return []string{
		"apiVersion", "kind", "dryRun", "nodeRegistration", "caCertPath", "discovery", "controlPlane", "skipPhases",
		"patches", "timeouts",
	}
}

// registrationFields returns the fields of nodeRegistration.
func registrationFields() []string {
	return []string{
		"name", "criSocket", "taints", "kubeletExtraArgs", "ignorePreflightErrors", "imagePullPolicy",
		"imagePullSerial",
	}
}

func (r *reader) readRegistration(p *joinPage, n *lang.JSONNode, version string) {
	f := r.object(n, "nodeRegistration", registrationFields()...)
	r.leave(f, "prelet pulls no images", "imagePullPolicy", "imagePullSerial")
	r.leave(f, "prelet has checks of its own: `prelet plan` names them", "ignorePreflightErrors")

	p.Name = r.text(f, "name")
	r.locate(strconv.Quote(p.Name), f.at("name"))
	if s := r.text(f, "criSocket"); s != "" {
		if !strings.Contains(s, "://") {
			s = "unix://" + s // as kubeadm does
		}
		p.Patch["containerRuntimeEndpoint"] = s
	}
	for _, t := range r.list(f, "taints") {
		o := r.object(t, "a taint", "key", "value", "effect", "timeAdded")
		item := r.text(o, "key")
		if v := r.text(o, "value"); v != "" {
			item += "=" + v
		}
		r.addTaint(&p.settings, item+":"+r.text(o, "effect"), t.Range)
	}
	r.readExtraArgs(&p.settings, f, version)
}

// readExtraArgs reads kubeletExtraArgs: a list of names and values, or in v1beta3 an object. kubeadm passes a flag as
// often as it is in the list.
func (r *reader) readExtraArgs(s *settings, f fields, version string) {
	const field = "kubeletExtraArgs"
	n := f.values[field]
	if version == kubeadmOld && n != nil && n.Kind == lang.JSONObject {
		for i, key := range n.Keys {
			arg := fields{map[string]*lang.JSONNode{"value": n.Items[i]}, map[string]hcl.Range{"value": key.Range}}
			r.addFlag(s, key.Text, r.text(arg, "value"), key.Range)
		}
		return
	}
	for _, item := range r.list(f, field) {
		arg := r.object(item, "an argument of the kubelet", "name", "value")
		r.addFlag(s, r.text(arg, "name"), r.text(arg, "value"), item.Range)
	}
}

// readDiscovery reads how kubeadm finds and trusts the cluster.
func (r *reader) readDiscovery(p *joinPage, join fields, o Options) {
	f := r.object(join.values["discovery"], "discovery", "bootstrapToken", "file", "tlsBootstrapToken", "timeout")
	r.leave(f, "prelet has timeouts of its own: retry in the cluster block", "timeout")
	byToken := r.object(f.values["bootstrapToken"], "bootstrapToken",
		"token", "apiServerEndpoint", "caCertHashes", "unsafeSkipCAVerification")
	byFile := r.object(f.values["file"], "file", "kubeConfigPath")
	if f.has("bootstrapToken") && f.has("file") {
		r.add(origin.Error(fault.Conflict, f.keys["file"], "bootstrapToken and file cannot both be set",
			"kubeadm refuses it too: keep the one that says how to trust the cluster."))
	}
	r.checkBool(byToken, "unsafeSkipCAVerification")

	p.Hashes = o.Hashes
	if len(p.Hashes) == 0 {
		p.Hashes = r.readHashes(byToken)
	}
	if p.DiscoveryFile = r.readDiscoveryPath(byFile); p.DiscoveryFile != "" {
		p.Hashes = nil
	}
	r.readToken(p, byToken, f, o)
	r.readServers(p, byToken, f, o)
	if p.DiscoveryFile == "" && len(p.Hashes) == 0 {
		r.trustToken(p, byToken, f)
	}
	if p.DiscoveryFile != "" {
		p.open = append(p.open, "The image needs "+p.DiscoveryFile+", or that URL must be reachable: "+
			"the site takes the cluster's CA from there.")
	}
}

// readToken decides whether the site has a token, and says which one, without reading it.
func (r *reader) readToken(p *joinPage, byToken, discovery fields, o Options) {
	hasToken := r.isSet(byToken, "token")
	hasTLS := r.isSet(discovery, "tlsBootstrapToken")
	if !hasToken && !hasTLS {
		p.open = append(p.open, "The file has no token. Without one, a machine joins with the bootstrap kubeconfig of "+
			"its image.")
		return
	}

	p.Credential = o.Credential
	p.open = append(p.open, "The token of the file is not in the site. It is a credential of prelet.service: "+
		o.Credential+".")
	if hasToken && hasTLS && byToken.values["token"].Text != discovery.values["tlsBootstrapToken"].Text {
		p.hasTwoTokens = true
		p.open = append(p.open, "The file has two tokens: "+o.Credential+" must contain that of tlsBootstrapToken, "+
			"with which the kubelet joins. The one of bootstrapToken is not needed, because a pin decides which "+
			"cluster is trusted.")
	}
}

// readDiscoveryPath reads the place of a discovery file. A URL may not contain a secret: it would be in the site.
func (r *reader) readDiscoveryPath(byFile fields) string {
	const field = "kubeConfigPath"
	path := r.text(byFile, field)
	u, err := url.Parse(path)
	isPath := strings.HasPrefix(path, "/")
	isURL := err == nil && strings.HasPrefix(path, "https://") && u.Host != ""
	hasMore := strings.ContainsAny(path, `@?#\`)
	switch {
	case path == "":
		return ""
	case hasMore, tokenPattern.MatchString(path), err != nil && !isPath:
		r.add(origin.Error(fault.PathInvalid, byFile.at(field), "kubeConfigPath may contain a secret",
			"A user, a password, a query, a fragment or a token would be in the site, where every user of the node "+
				"can read it, so @, ?, # and \\ are refused. Put the file into the image, or serve it under a URL "+
				"without them."))
		return ""
	case !isPath && !isURL:
		r.add(origin.Error(fault.PathInvalid, byFile.at(field), "kubeConfigPath cannot be used",
			"Write an absolute path, or an https URL."))
		return ""
	}

	return path
}

// readServers reads the address of the API server. A discovery file has it on the node only.
func (r *reader) readServers(p *joinPage, byToken, discovery fields, o Options) {
	p.Servers = slices.Clone(o.Servers)
	at := byToken.at("apiServerEndpoint")
	if len(p.Servers) == 0 {
		if s := r.text(byToken, "apiServerEndpoint"); s != "" {
			p.Servers = []string{s}
		}
	}
	if len(p.Servers) == 0 {
		r.add(origin.Error(fault.MissingArgument, discovery.placeOf("bootstrapToken", "file"), "No API server",
			"A discovery file has it on the node only: give it here, with --server HOST:PORT."))
	}
	for i, s := range p.Servers {
		address, err := apiaddress.Parse(s)
		if err != nil {
			r.add(origin.Error(fault.WrongType, at, "The API server cannot be used", serverHelp))
			continue
		}
		p.Servers[i] = "https://" + address
	}
}

// readHashes reads the pins of the CA.
func (r *reader) readHashes(byToken fields) (out []string) {
	for _, n := range r.list(byToken, "caCertHashes") {
		if err := CheckHash(n.Text); err != nil || n.Kind != lang.JSONString {
			r.add(origin.Error(fault.WrongType, n.Range, "This is not a pin",
				"Write sha256: and 64 hex digits.\n%s", CAHashHelp))
			continue
		}
		out = append(out, n.Text)
	}

	return out
}

// trustToken decides about a file without pins: with unsafeSkipCAVerification kubeadm trusts a cluster-info that is
// signed with the token.
func (r *reader) trustToken(p *joinPage, byToken, discovery fields) {
	const skip = "unsafeSkipCAVerification"
	n := byToken.values[skip]
	if p.hasTwoTokens {
		r.add(origin.Error(fault.MissingArgument, discovery.keys["tlsBootstrapToken"], "No pin, and two tokens",
			"A site has one token, with which it joins. To trust the cluster without the other one, give a pin with "+
				"--ca-cert-hash. %s", CAHashHelp))
		return
	}
	if n == nil || n.Kind != lang.JSONBool || n.Text != "true" || p.Credential == "" {
		if !r.diags.HasErrors() {
			at := discovery.placeOf("bootstrapToken", "file")
			r.add(origin.Error(fault.MissingArgument, at, "No pin of the cluster's CA",
				"Give it with --ca-cert-hash. %s", CAHashHelp))
		}
		return
	}

	p.IsTokenTrust = true
	r.add(origin.Warning(fault.ClusterUntrusted, byToken.keys[skip], "The cluster is trusted by the token alone",
		"A program that has the token can pretend to be the cluster. Import with --ca-cert-hash. %s", pinHelp))
}

// readPatchFolder reads the patches of the kubelet's configuration.
func (r *reader) readPatchFolder(p *joinPage, n *lang.JSONNode, o Options) {
	f := r.object(n, "patches", "directory")
	dir := r.text(f, "directory")
	at := f.at("directory")
	if o.Patches != "" {
		dir = o.Patches
	}
	if dir == "" || r.diags.HasErrors() {
		return
	}

	var files []PatchFile
	err := fmt.Errorf("%s is not an absolute path", dir)
	if o.ReadPatches != nil && (o.Patches != "" || filepath.IsAbs(dir)) {
		files, err = o.ReadPatches(dir)
	}
	if err != nil {
		r.add(origin.Warning(fault.FileMissing, at, "The patches are not imported",
			"%s. %s", err, describePatches(dir)))
		return
	}
	for _, file := range files {
		r.sources[file.Name] = hideSecrets(file.Text)
	}
	patch := r.readPatches(files)
	if socket, isSet := p.Patch["containerRuntimeEndpoint"]; isSet {
		patch["containerRuntimeEndpoint"] = socket // kubeadm applies instance-config.yaml behind the patches
	}
	p.Patch = patch
	r.dropTaints(&p.settings, at)
}

// isSet reports whether a field has a value, without reading it: it may be a secret.
func (r *reader) isSet(f fields, name string) bool {
	n := f.values[name]
	if n != nil && n.Kind != lang.JSONNull && n.Kind != lang.JSONString {
		r.add(origin.Error(fault.WrongType, f.keys[name], "Wrong type for "+name,
			"A string is needed, not %s.", n.Kind))
	}

	return n != nil && n.Kind == lang.JSONString && n.Text != ""
}

// checkBool reports a field that is not a boolean.
func (r *reader) checkBool(f fields, name string) {
	if n := f.values[name]; n != nil && n.Kind != lang.JSONNull && n.Kind != lang.JSONBool {
		r.add(origin.Error(fault.WrongType, f.keys[name], "Wrong type for "+name,
			"true or false is needed, not %s.", n.Kind))
	}
}

// has reports whether a field is set to more than null.
func (f fields) has(name string) bool {
	n := f.values[name]

	return n != nil && n.Kind != lang.JSONNull
}

// placeOf returns the place of the first of these keys that is set.
func (f fields) placeOf(names ...string) hcl.Range {
	for _, name := range names {
		if at, ok := f.keys[name]; ok {
			return at
		}
	}

	return hcl.Range{}
}

// differences returns what is different on nodes of the site.
func (p joinPage) differences() []string {
	return []string{
		"The token is a credential of prelet.service, and not in a file of the node's configuration.",
		"A node that has joined keeps its identity. All files are written or none, the kubelet is verified, and a " +
			"second run writes nothing.",
		"Labels, taints, name and flags are in the flags file (/etc/default/kubelet) and in config.yaml: prelet does " +
			"not write kubeadm-flags.env.",
		"instance_config = true keeps kubeadm's instance-config.yaml right, so `kubeadm upgrade node` undoes nothing.",
	}
}
