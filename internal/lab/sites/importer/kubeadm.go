package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	ctyjson "github.com/zclconf/go-cty/cty/json"
	kjson "sigs.k8s.io/json"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/codec"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/plan/lang"
)

const (
	kubeadmNow = "kubeadm.k8s.io/v1beta4"
	kubeadmOld = "kubeadm.k8s.io/v1beta3" // until kubeadm 1.36
	defaultCA  = "/etc/kubernetes/pki/ca.crt"
)

// joinConfiguration has the fields of kubeadm's JoinConfiguration that a site has. Source:
// cmd/kubeadm/app/apis/kubeadm/v1beta4 of Kubernetes 1.37.1. The types themselves are not imported, because they bring
// all of k8s.io/kubernetes.
type joinConfiguration struct {
	APIVersion       string           `json:"apiVersion"`
	Kind             string           `json:"kind"`
	CACertPath       string           `json:"caCertPath"`
	ControlPlane     any              `json:"controlPlane"`
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	Discovery        discovery        `json:"discovery"`
	Patches          struct {
		Directory string `json:"directory"`
	} `json:"patches"`
}

type nodeRegistration struct {
	Name      string `json:"name"`
	CRISocket string `json:"criSocket"`
	Taints    []struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Effect string `json:"effect"`
	} `json:"taints"`
	KubeletExtraArgs json.RawMessage `json:"kubeletExtraArgs"` // a list of flags, in v1beta3 an object
}

type discovery struct {
	BootstrapToken *struct {
		Token                    string   `json:"token"`
		APIServerEndpoint        string   `json:"apiServerEndpoint"`
		CACertHashes             []string `json:"caCertHashes"`
		UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification"`
	} `json:"bootstrapToken"`
	File *struct {
		KubeConfigPath string `json:"kubeConfigPath"`
	} `json:"file"`
	TLSBootstrapToken string `json:"tlsBootstrapToken"`
}

type extraArg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// PatchFile is a file of kubeadm's folder of patches.
type PatchFile struct {
	Name string // with its folder, for messages
	Text []byte
}

// joinPage is the data of the template for a JoinConfiguration.
type joinPage struct {
	common
	DiscoveryFile string
	IsTokenTrust  bool
	CAPath        string // "": the default

	Name, IP string
	Flags    map[string]any // by name
	Patch    map[string]any // of the configuration

	HasNoToken, HasTwoTokens bool
}

var (
	documentStart = texts.LazyRegexp(`(?m)^---.*$`)
	tokenPattern  = texts.LazyRegexp(`[a-z0-9]{6}\.[a-z0-9]{16}`)
)

// importJoin imports the only JoinConfiguration of a YAML file.
func (r *reader) importJoin(source string, src []byte, o Values) Imported {
	p := joinPage{
		common: common{Source: source},
		Flags:  map[string]any{},
		Patch:  map[string]any{},
	}
	if join := r.findJoin(src); join != nil {
		r.readJoin(&p, *join, o)
	}

	return r.finish("kubeadm", joinTemplate, p, o)
}

// findJoin returns the only JoinConfiguration of a file, and reports all other documents.
func (r *reader) findJoin(src []byte) (found *joinConfiguration) {
	for _, text := range documentStart().Split(string(src), -1) {
		doc, object, err := decodeYAML(text)
		if err != nil {
			r.refuse(fault.Syntax, "Invalid YAML", "%s.", err)
			return nil
		}

		switch kind := fmt.Sprint(object["kind"]); {
		case string(doc) == "null":
		case kind == "NodeConfig":
			r.refuse(fault.WrongType, "A NodeConfig of nodeadm is not imported",
				"Write the site: kubelet.config is patch and kubelet.flags is flags in the write stage; reserve has "+
					"the policy eks.")
			return nil
		case kind != "JoinConfiguration":
			r.note(fault.UnknownArgument, "A document is not imported",
				"Its kind is %q. What a cluster's nodes share is in its ConfigMap kube-system/kubelet-config.",
				shorten(kind, 28))
		case found != nil:
			r.refuse(fault.Duplicate, "A second JoinConfiguration", "A site is for one: keep one of them.")
		default:
			found = r.decodeJoin(doc)
		}
	}
	if found == nil && !r.diags.HasErrors() {
		r.refuse(fault.WrongType, "Nothing to import",
			"A JoinConfiguration (%s) or the JSON of init-k8s-node.py is needed.", kubeadmNow)
	}

	return found
}

// decodeYAML reads a document within limits, as JSON and, if it is one, as an object. Its errors have no text of the
// document: that may be a token.
func decodeYAML(text string) (doc []byte, object map[string]any, err error) {
	v, err := codec.DecodeYAML([]byte(text))
	if err != nil {
		cause := err.Error()
		if quote := strings.IndexAny(cause, "'\"`"); quote >= 0 {
			cause = strings.TrimSpace(cause[:quote])
		}
		return nil, nil, fmt.Errorf("%s", strings.TrimSuffix(cause, ":"))
	}

	doc, err = ctyjson.Marshal(v, v.Type())
	_ = kjson.UnmarshalCaseSensitivePreserveInts(doc, &object) // nil if doc is not an object

	return doc, object, err
}

// decodeJoin decodes a JoinConfiguration, and reports the fields that a site does not have.
func (r *reader) decodeJoin(doc []byte) *joinConfiguration {
	var join joinConfiguration
	for _, field := range r.decode(doc, &join) {
		r.warn(fault.UnknownArgument, shorten(field, 48)+" is not imported",
			"If it is not misspelt, a site has nothing in its place: prelet pulls no images, and has checks and "+
				"timeouts of its own.")
	}
	if r.diags.HasErrors() {
		return nil
	}

	return &join
}

func (r *reader) readJoin(p *joinPage, join joinConfiguration, o Values) {
	if join.APIVersion != kubeadmNow && join.APIVersion != kubeadmOld {
		r.refuse(fault.WrongType, "This version of kubeadm's configuration is not known",
			"apiVersion must be %s. `kubeadm config migrate --old-config FILE --new-config NEW` of a kubeadm that "+
				"reads this one converts it. For v1, which is experimental, it needs --allow-experimental-api too.",
			kubeadmNow)
		return
	}
	if join.ControlPlane != nil {
		r.refuse(fault.UnknownArgument, "A control plane cannot be imported",
			"prelet prepares workers. Join this node with kubeadm, or import the JoinConfiguration of a worker.")
	}
	if join.CACertPath != defaultCA {
		p.CAPath = join.CACertPath
	}

	r.readRegistration(p, join.NodeRegistration, join.APIVersion)
	r.readDiscovery(p, join.Discovery, o)
	r.readPatches(p, join.Patches.Directory, o)
}

func (r *reader) readRegistration(p *joinPage, n nodeRegistration, version string) {
	p.Name = n.Name
	if s := n.CRISocket; s != "" {
		if !strings.Contains(s, "://") {
			s = "unix://" + s // as kubeadm does
		}
		p.Patch["containerRuntimeEndpoint"] = s
	}
	for _, t := range n.Taints {
		r.addTaints(&p.common, kubelet.Taint{
			Key:    t.Key,
			Value:  t.Value,
			Effect: t.Effect,
		}.String())
	}

	args, err := decodeExtraArgs(n.KubeletExtraArgs, version)
	if err != nil {
		r.refuse(fault.WrongType, "Wrong type for kubeletExtraArgs",
			"%s needs a list of objects with name and value, both texts; v1beta3 an object.", kubeadmNow)
	}
	for _, arg := range args {
		r.addFlag(p, kubelet.FlagName(arg.Name), arg.Value)
	}
}

// decodeExtraArgs returns the flags of a file. kubeadm passes a flag as often as it is in the list.
func decodeExtraArgs(text json.RawMessage, version string) (args []extraArg, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	if version != kubeadmOld {
		return args, json.Unmarshal(text, &args)
	}

	var byName map[string]string
	err = json.Unmarshal(text, &byName)
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		args = append(args, extraArg{name, byName[name]})
	}

	return args, err
}

// addFlag adds a flag of the kubelet. Labels, taints, name and address have places of their own in a site. Several
// uses of one flag add up where the kubelet adds them up; otherwise the last one counts, as for taints.
func (r *reader) addFlag(p *joinPage, name, text string) {
	switch name {
	case "":
		r.warn(fault.FlagsInvalid, "A flag without a name is not imported", "Write its name.")
	case "node-labels":
		r.addLabels(&p.common, text)
	case "register-with-taints": // each use replaces the earlier ones, and kubeadm's own
		if len(p.Taints) > 0 {
			r.note(fault.Duplicate, "Earlier taints are not imported",
				"The kubelet takes the taints of the last --register-with-taints only.")
		}
		p.Taints = nil
		r.addTaints(&p.common, text)
	case "hostname-override":
		p.Name = text
	case "node-ip":
		p.IP = text
	case "container-runtime-endpoint":
		p.Patch["containerRuntimeEndpoint"] = text
	case "config", "kubeconfig", "bootstrap-kubeconfig":
		r.note(fault.UnknownArgument, "--"+name+" is not imported",
			"The kubelet's unit sets it. For another path, set path in kubelet_config of the site.")
	default:
		if old, isSet := p.Flags[name]; isSet && old != text {
			text = kubelet.JoinFlag(name, fmt.Sprint(old), text)
		}
		p.Flags[name] = text
	}
}

// readDiscovery reads how kubeadm finds and trusts the cluster.
func (r *reader) readDiscovery(p *joinPage, d discovery, o Values) {
	if d.BootstrapToken != nil && d.File != nil {
		r.refuse(fault.Conflict, "discovery.bootstrapToken and discovery.file cannot both be set",
			"kubeadm refuses it too: keep the one that says how to trust the cluster.")
		return
	}

	p.Servers, p.Hashes = o.Servers, o.Hashes
	token, isUnsafe := "", false
	if b := d.BootstrapToken; b != nil {
		token, isUnsafe = b.Token, b.UnsafeSkipCAVerification
		if len(p.Hashes) == 0 {
			p.Hashes = b.CACertHashes
		}
		if len(p.Servers) == 0 && b.APIServerEndpoint != "" {
			p.Servers = []string{b.APIServerEndpoint}
		}
	}
	if d.File != nil {
		p.Hashes = nil
		p.DiscoveryFile = r.checkDiscoveryFile(d.File.KubeConfigPath)
	}
	r.checkServers(&p.common,
		"apiServerEndpoint is missing. A discovery file has it on the node only: give it with --server HOST:PORT.")
	for _, h := range p.Hashes {
		if CheckHash(h) != nil {
			r.refuse(fault.WrongType, "caCertHashes has an entry that is not a pin",
				"Write sha256: and 64 hex digits.\n%s", CAHashHelp)
		}
	}
	p.HasNoToken = token == "" && d.TLSBootstrapToken == ""
	p.HasTwoTokens = token != "" && d.TLSBootstrapToken != "" && token != d.TLSBootstrapToken
	if !p.HasNoToken {
		p.Credential = o.Credential
	}
	if d.File != nil || len(p.Hashes) > 0 {
		return
	}

	p.IsTokenTrust = isUnsafe && !p.HasTwoTokens && p.Credential != ""
	if !p.IsTokenTrust {
		r.refuse(fault.MissingArgument, "No pin of the cluster's CA", "Give it with --ca-cert-hash. %s", CAHashHelp)
		return
	}
	r.warn(fault.ClusterUntrusted, "The cluster is trusted by the token alone (unsafeSkipCAVerification)",
		"A program that has the token can pretend to be the cluster. Import with --ca-cert-hash. %s", pinHelp)
}

// checkDiscoveryFile returns the place of a discovery file; "" if the file is refused. A URL may not contain a secret:
// it would be in the site.
func (r *reader) checkDiscoveryFile(path string) string {
	u, err := url.Parse(path)
	switch {
	case strings.ContainsAny(path, `@?#\`), tokenPattern().MatchString(path), err != nil:
		r.refuse(fault.PathInvalid, "kubeConfigPath may contain a secret",
			"A user, a password, a query, a fragment or a token would be in the site, where every user of the node "+
				"can read it, so @, ?, # and \\ are refused. Put the file into the image, or serve it under a URL "+
				"without them.")
		return ""
	case !strings.HasPrefix(path, "/") && (u.Scheme != "https" || u.Host == ""):
		r.refuse(fault.PathInvalid, "kubeConfigPath cannot be used", "Write an absolute path, or an https URL.")
		return ""
	}

	return path
}

// readPatches merges the patches of the kubelet's configuration, in the order of their names. A patch goes into the
// site as it is.
func (r *reader) readPatches(p *joinPage, dir string, o Values) {
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
		r.warn(fault.FileMissing, "The patches are not imported",
			"%s. kubeadm reads patches from %s on the node. Copy that folder here, and name it with --patches.",
			err, dir)
		return
	}

	socket, hasSocket := p.Patch["containerRuntimeEndpoint"]
	for _, f := range files {
		r.addPatch(p.Patch, f)
	}
	if hasSocket { // kubeadm applies instance-config.yaml after the patches
		p.Patch["containerRuntimeEndpoint"] = socket
	}
	if _, isSet := p.Patch["registerWithTaints"]; isSet && len(p.Taints) > 0 {
		delete(p.Patch, "registerWithTaints")
		r.note(fault.Duplicate, "registerWithTaints is not imported",
			"The kubelet takes the taints of --register-with-taints instead.")
	}
}

// addPatch merges one file. kubeadm finds the kind of a patch in the name: kubeletconfiguration0+merge.yaml.
func (r *reader) addPatch(into map[string]any, f PatchFile) {
	base := filepath.Base(f.Name)
	name := strings.TrimSuffix(strings.TrimSuffix(base, ".yaml"), ".json")
	target, kind, _ := strings.Cut(name, "+")
	if name == base || !strings.HasPrefix(target, "kubeletconfiguration") {
		r.note(fault.UnknownArgument, base+" is not imported", "It is not a patch of the target kubeletconfiguration.")
		return
	}

	_, patch, err := decodeYAML(string(f.Text))
	switch {
	case len(f.Text) > lang.MaxBytes: // and cut off
		r.refuse(fault.Limit, base+" is too large", "At most %d bytes are read.", lang.MaxBytes)
	case err != nil:
		r.refuse(fault.Syntax, base+" is invalid YAML", "%s.", err)
	case kind != "" && kind != "merge" && kind != "strategic", patch == nil, hasDirective(patch):
		r.warn(fault.UnknownArgument, base+" is not imported",
			"Only merge patches are: without JSON patches, and without directives such as $patch. Write the fields "+
				"that it changes in patch of kubelet_config; null removes a field.")
	default:
		delete(patch, "apiVersion")
		delete(patch, "kind")
		for _, field := range mergePatch(into, patch) {
			r.warn(fault.UnknownArgument, shorten(field, 60)+" is not imported",
				"kubeadm replaces this object, with what the cluster has in it. patch of kubelet_config adds to the "+
					"cluster's: write its fields there, and null for those to remove.")
		}
	}
}

// hasDirective reports whether a patch has a directive of strategic merge patches, such as $patch.
func hasDirective(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if strings.HasPrefix(key, "$") || hasDirective(item) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasDirective)
	}

	return false
}

// mergePatch adds a merge patch to the patch that is applied before it. It returns the fields that it leaves out: those
// that the earlier patch removes, and that this one sets to an object. kubeadm gives exactly that object, but one merge
// patch can only add it to the cluster's.
func mergePatch(into, patch map[string]any) (replaced []string) {
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		inner, isObject := patch[name].(map[string]any)
		old, wasSet := into[name]
		oldInner, wasObject := old.(map[string]any)
		switch {
		case isObject && wasObject:
			for _, below := range mergePatch(oldInner, inner) {
				replaced = append(replaced, name+"."+below)
			}
		case isObject && wasSet:
			delete(into, name)
			replaced = append(replaced, name)
		default:
			into[name] = patch[name]
		}
	}

	return replaced
}
