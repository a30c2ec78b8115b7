package schema

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/internal/platform/apiaddress"
)

// The attributes of the blocks that belong to no stage. Each is the accessor of its value as well.
var (
	RequiredVersion = Attr[string]{
		Name:  "required_version",
		Doc:   "Which prelet this site needs, as a Terraform version constraint: `\">= 0.1\"`.",
		Const: true,
	}
	OnClusterError = Attr[string]{
		Name:    "on_cluster_error",
		Doc:     "What a node that has joined before does when a request to the cluster fails: `last-good` (each question falls back to the last good generation's recording; the boot is degraded) or `fail`.",
		Default: "last-good",
		OneOf:   []string{"last-good", "fail"},
		Const:   true,
	}
	MaxAge = Attr[string]{
		Name:    "max_age",
		Doc:     "How old a last good answer may be.",
		Default: "720h",
		Check:   Duration,
		Const:   true,
	}
	Deadline = Attr[string]{
		Name:    "deadline",
		Doc:     "How long gathering may take in all.",
		Default: "5m",
		Check:   Duration,
		Const:   true,
	}
	RecordingGroup = Attr[string]{
		Name:  "recording_group",
		Doc:   "The group that may read the recording of the last run, `/run/prelet/recording.prelet`, with which an agent sees what this node becomes. Without a group it is not kept.",
		Check: checkGroup,
		Const: true,
	}

	Servers = Attr[[]string]{
		Name:     "servers",
		Doc:      "The apiservers, `host:port` or `https://host:port`, tried in this order. Never http.",
		Type:     cty.List(cty.String),
		Required: true,
		Check:    checkServers,
	}
	CACertHashes = Attr[[]string]{
		Name:  "ca_cert_hashes",
		Doc:   "Pins, as `kubeadm token create --print-join-command` prints them: `sha256:` and the hash of the CA's public key. A CA of the cluster without a pin is left out, so that two pins are a change of the CA.",
		Type:  cty.List(cty.String),
		Check: checkPins,
	}
	CAFile = Attr[string]{
		Name:  "ca_file",
		Doc:   "The cluster's CA as a PEM file on the node. Instead of pins.",
		Check: nodeFile,
	}
	Discovery = Attr[string]{
		Name:  "discovery_file",
		Doc:   "A kubeconfig with server and CA, on the node, or an https URL. Instead of pins.",
		Check: checkDiscovery,
	}
	TrustBy = Attr[string]{
		Name:  "trust",
		Doc:   "`token`: trust a cluster-info that is signed with the token. A holder of a token that many nodes share can forge it, so this must be written.",
		OneOf: []string{"token"},
		Const: true,
	}
	Token = Attr[cty.Value]{
		Name: "token",
		Doc:  "The bootstrap token: `credential(\"NAME\")` and nothing else, since every recording contains the site's text. Read only while the node has not joined. Without one, such a node asks with the `/etc/kubernetes/bootstrap-kubelet.conf` of its image, which may name a credential plugin.",
	}
	ProxyURL = Attr[string]{
		Name:  "proxy_url",
		Doc:   "A proxy for requests to the cluster, also of the kubelet while it joins. The kubelet drops it then: set `HTTPS_PROXY` in its environment. prelet ignores proxy variables.",
		Check: checkProxy,
	}
	Retry = Attr[string]{
		Name:    "retry",
		Doc:     "How long unanswered requests are repeated, inside the site's deadline. A node that has joined and can fall back on its last good generation waits 15 seconds at most.",
		Default: "2m",
		Check:   Duration,
	}

	NodeNameAttr = Attr[string]{
		Name: "name",
		Doc:  "The node's name (`--hostname-override`). Null: as the base has it, or the host's name.",
	}
	NodeTakeover = Attr[bool]{
		Name:    "takeover",
		Default: false,
		Doc:     "Whether this machine may join under the name of a Node that is Ready and of another machine, as after a disk was replaced by hand. Without it such a run ends with 22, `node-name-taken`. Use a variable, which is true for one machine and one boot; or `prelet run --takeover`.",
	}
	NodeIP = Attr[string]{
		Name: "ip",
		Doc:  "The node's address (`--node-ip`). Null: as the base has it.",
	}

	DeliveryFrom = Attr[[]string]{
		Name:  "from",
		Doc:   "Where the site is, tried in this order: `HOST/REPOSITORY:TAG`, `HOST/REPOSITORY@sha256:…`, or `oci-layout:/PATH`, with `:TAG` or a digest if the folder has several. The credential `prelet.site` and `prelet.site=` on the kernel command line replace it. Without any, nothing is pulled.",
		Type:  cty.List(cty.String),
		Check: checkReferences,
		Const: true,
	}
	DeliveryName = Attr[string]{
		Name:  "name",
		Doc:   "The name that the signed list of the pulled site must have. Null: any.",
		Const: true,
	}
	DeliveryRing = Attr[string]{
		Name:    "ring",
		Doc:     "The ring that the signed list of the pulled site must have; a list without one is for nodes without one.",
		Default: "",
		Const:   true,
	}
	DeliveryAlone = Attr[bool]{
		Name:    "alone",
		Doc:     "Whether a node without a usable pulled site works with the other layers, degraded. Otherwise a node that has joined keeps its generation, and at a first boot the kubelet does not start.",
		Default: false,
		Const:   true,
	}
	DeliveryCAFile = Attr[string]{
		Name:  "ca_file",
		Doc:   "The CAs of the registry as a PEM file on the node. Null: those of the machine.",
		Check: nodeFile,
		Const: true,
	}
	DeliveryProxy = Attr[string]{
		Name:  "proxy_url",
		Doc:   "A proxy for requests to the registry. prelet ignores proxy variables.",
		Check: checkProxy,
		Const: true,
	}
	DeliveryApply = Attr[bool]{
		Name:    "apply",
		Doc:     "Whether `prelet-check.timer` applies a new site between boots, at once or, if the plan [needs it](../operators/rolling-out.md#2-what-must-be-drained), once the node is drained. Otherwise it waits for the next boot, or for `prelet run`.",
		Default: false,
		Const:   true,
	}

	ProviderConfig = Attr[string]{
		Name:     "config",
		Doc:      "The kubelet's `--image-credential-provider-config`: a file, or a folder of files.",
		Required: true,
		Check:    nodeFile,
		Const:    true,
	}
	ProviderBinDir = Attr[string]{
		Name:     "bin_dir",
		Doc:      "The kubelet's `--image-credential-provider-bin-dir`: the folder of the plugins.",
		Required: true,
		Check:    nodeFile,
		Const:    true,
	}

	DetectorRequired = Attr[bool]{
		Name:    "required",
		Doc:     "Whether the boot fails (exit 31) when this detector does not answer. Otherwise it goes on, degraded.",
		Default: false,
		Const:   true,
	}
	DetectorTimeout = Attr[string]{
		Name:    "timeout",
		Doc:     "How long it may take from its start. A detector may say that it needs longer: `nvidia` 45 seconds.",
		Default: "10s",
		Check:   Duration,
		Const:   true,
	}
	DetectorMemory = Attr[string]{
		Name:    "memory",
		Doc:     "How much writable private memory each of its processes may have; at least 128Mi. All together may have twice as much.",
		Default: "128Mi",
		Check:   memory,
		Const:   true,
	}
	AllowDevices = Attr[[]string]{
		Name:  "devices",
		Doc:   "Device nodes that it may open, read, write and control. Shell patterns are allowed, here and below.",
		Type:  cty.List(cty.String),
		Check: grantableDevices,
		Const: true,
	}
	AllowRead = Attr[[]string]{
		Name:  "read",
		Doc:   "Files, and folders with what is below them, that it may read.",
		Type:  cty.List(cty.String),
		Check: grantable,
		Const: true,
	}
	AllowExecute = Attr[[]string]{
		Name:  "execute",
		Doc:   "Programs that it may run, and folders of such.",
		Type:  cty.List(cty.String),
		Check: grantable,
		Const: true,
	}
	AllowSockets = Attr[[]string]{
		Name:  "sockets",
		Doc:   "Unix stream sockets that it may connect to. On kernels before Landlock 9 it can then reach every stream socket that its user and groups may open.",
		Type:  cty.List(cty.String),
		Check: grantable,
		Const: true,
	}
	AllowGroups = Attr[[]string]{
		Name:  "groups",
		Doc:   "Groups that it is a member of, by name.",
		Type:  cty.List(cty.String),
		Const: true,
	}

	AllowAnyPCIDevice = Attr[bool]{
		Name:    "any_pci_device",
		Default: false,
		Const:   true,
		Doc:     "Whether it may overrule what prelet finds of PCI devices that its description does not match by their ids.",
	}

	VariableType = Attr[string]{
		Name:        "type",
		Doc:         "`string`, `number`, `bool`, `list(…)`, `set(…)`, `map(…)`, `object({…})`, `tuple([…])` or `any`.",
		DefaultText: "`string`",
		Const:       true,
	}
	VariableDefault = Attr[cty.Value]{
		Name:  "default",
		Doc:   "The value if no source has one. Without: a value is required.",
		Const: true,
	}
	VariableDescription = Attr[string]{
		Name:  "description",
		Doc:   "Its purpose; shown when it is missing.",
		Const: true,
	}
	VariableSensitive = Attr[bool]{
		Name:    "sensitive",
		Doc:     "A secret: a string from the credential `prelet.var.NAME` only.",
		Default: false,
		Const:   true,
	}
	ValidationCondition = Attr[cty.Value]{
		Name:     "condition",
		Doc:      "Must be true.",
		Required: true,
	}
	ValidationMessage = Attr[string]{
		Name:     "error_message",
		Doc:      "What is wrong and what is allowed. It may name variables: `\"${var.zone} is not a zone\"`.",
		Required: true,
	}
)

// The blocks of the language. Stage types bring their own (stages.Stage.Spec).
var (
	PreletBlock = Block{
		Type:   "prelet",
		Max:    1,
		Doc:    "What holds for the whole site.",
		Fields: []Field{RequiredVersion, OnClusterError, MaxAge, Deadline, RecordingGroup},
	}

	VariableBlock = Block{
		Type:   "variable",
		Labels: []string{"name"},
		Doc:    "A value that differs between machines. Sources, later ones win: default, `*.preletvars.hcl`, credentials `prelet.var.NAME`, the kernel command line `prelet.var.NAME=`, `--var`.",
		Fields: []Field{VariableType, VariableDefault, VariableDescription, VariableSensitive},
		Blocks: []Block{
			{
				Type:   "validation",
				Doc:    "A rule for the value.",
				Fields: []Field{ValidationCondition, ValidationMessage},
			},
		},
	}

	LocalsBlock = Block{
		Type: "locals",
		Free: true,
		Doc:  "Names for expressions: `local.NAME`. A local is evaluated at its first use and has the phase of the values that it reaches.",
	}

	ClusterBlock = Block{
		Type:   "cluster",
		Max:    1,
		Doc:    "Where the cluster is and why it is believed. One of `ca_cert_hashes`, `ca_file`, `discovery_file`, `trust`.",
		Fields: []Field{Servers, CACertHashes, CAFile, Discovery, TrustBy, Token, ProxyURL, Retry},
	}

	NodeBlock = Block{
		Type:   "node",
		Max:    1,
		Doc:    "Who this node is. Used for flags, verification and reports alike.",
		Fields: []Field{NodeNameAttr, NodeIP, NodeTakeover},
	}

	DeliveryBlock = Block{
		Type: "delivery",
		Max:  1,
		Doc:  "Where this node gets its site. `prelet site update` reads it without the pulled site, which can change neither the place nor the ring; `/etc/prelet` can. See [delivery](../operators/delivery.md).",
		Fields: []Field{
			DeliveryFrom, DeliveryName, DeliveryRing, DeliveryAlone, DeliveryApply, DeliveryCAFile, DeliveryProxy,
		},
		Blocks: []Block{{
			Type:   providerBlock,
			Max:    1,
			Doc:    "The kubelet's credential providers, as plugins that give passwords of registries. `prelet site update` starts those whose `matchImages` has the repository.",
			Fields: []Field{ProviderConfig, ProviderBinDir},
		}},
	}

	DetectorBlock = Block{
		Type:   "detector",
		Labels: []string{"name"},
		Doc:    "A vendor's detector, and what the site grants it.",
		Fields: []Field{DetectorRequired, DetectorTimeout, DetectorMemory},
		Blocks: []Block{
			{
				Type: "allow",
				Max:  1,
				Doc:  "What it may do beyond nothing.",
				Fields: []Field{
					AllowDevices,
					AllowRead,
					AllowExecute,
					AllowSockets,
					AllowGroups,
					AllowAnyPCIDevice,
				},
			},
			{
				Type: "config",
				Max:  1,
				Free: true,
				Doc:  "Its own configuration, checked against its description.",
			},
		},
	}

	StageBlock = Block{
		Type:   "stage",
		Labels: []string{"type", "name"},
		Doc:    "One step; its address is `TYPE.NAME`.",
	}

	OverrideBlock = Block{
		Type: "override",
		Doc:  "Changes blocks of other files: attributes replace whole, `= null` returns to the default, sub-blocks match by type and label.",
	}
)

// The arguments that the language adds to stages.
var (
	When = Attr[bool]{
		Name:   "when",
		Doc:    "The stage is skipped unless this is true.",
		Secret: "A condition may depend on whether a credential exists: can(credential(NAME)).",
	}
	ForEach = Attr[cty.Value]{
		Name: "for_each",
		Doc:  "A map or set: one copy of the stage for each, with `each.key` and `each.value`.",
	}
	Timeout = Attr[string]{
		Name:  "timeout",
		Doc:   "How long the stage may take.",
		Check: Duration,
	}
	OnFailure = Attr[string]{
		Name:    "on_failure",
		Doc:     "`fail`, or `continue`: outputs are empty, `state` is `failed`, the boot is degraded.",
		Default: "fail",
		OneOf:   []string{"fail", "continue"},
		Const:   true,
	}
)

// TopLevel lists the blocks that a file may hold.
func TopLevel() []Block {
	return []Block{
		PreletBlock,
		VariableBlock,
		LocalsBlock,
		ClusterBlock,
		NodeBlock,
		DeliveryBlock,
		DetectorBlock,
		StageBlock,
		OverrideBlock,
	}
}

// Duration checks a Go duration of at least a millisecond: "90s", "5m", "720h".
func Duration(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond {
		return fmt.Errorf("invalid duration %q; write it as 90s, 5m or 720h", s)
	}
	return nil
}

// ParseDuration returns a duration that Duration has checked, and 0 for an unset one.
func ParseDuration(v Value[string]) time.Duration {
	d, _ := time.ParseDuration(v.V)

	return d
}

// checkOneOf checks the value of an attribute that takes one of a few words.
func checkOneOf(s string, words []string) error {
	if slices.Contains(words, s) {
		return nil
	}

	hint := ""
	if near := texts.Nearest(s, words); near != "" {
		hint = fmt.Sprintf(" Did you mean %q?", near)
	}
	return fmt.Errorf("%q is not one of %s.%s", s, strings.Join(words, ", "), hint)
}

func checkServers(l []string) error {
	if len(l) == 0 {
		return fmt.Errorf("at least one server is needed, as \"https://10.0.0.11:6443\"")
	}
	for _, s := range l { // a duplicate, as variables may make it, is used once
		if err := Server(s); err != nil {
			return err
		}
	}
	return nil
}

// Server checks the form of an apiserver, HOST:PORT or https://HOST[:PORT], without looking a name up.
func Server(s string) error {
	_, err := apiaddress.Parse(s)
	return err
}

func checkProxy(s string) error {
	host, ok := strings.CutPrefix(s, "http://")
	if !ok {
		host, ok = strings.CutPrefix(s, "https://")
	}
	switch {
	case strings.Contains(s, "@"):
		return fmt.Errorf(
			"a proxy with a user in it: credentials do not belong in a site, whose text is in every recording",
		)
	case !ok || host == "" || strings.ContainsAny(strings.TrimSuffix(host, "/"), "/ \t\n?#"):
		return fmt.Errorf("invalid proxy %q: write http://HOST:PORT or https://HOST:PORT", s)
	}
	if err := apiaddress.CheckAuthority(strings.TrimSuffix(host, "/")); err != nil {
		return fmt.Errorf("invalid proxy %q: %w", s, err)
	}
	return nil
}

func absolutePath(s string) error {
	if strings.Contains(s, "\n") {
		return errors.New("this is the content of a file, and its path is needed: put it into a file of the node")
	}
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("%q is not an absolute path: write %q", s, path.Join("/", s))
	}
	return nil
}

// groupName matches the names that groupadd accepts.
var groupName = texts.LazyRegexp(`^[a-z_][a-z0-9_-]{0,31}$`)

func checkGroup(s string) error {
	if !groupName().MatchString(s) {
		return fmt.Errorf("invalid group %q: write the name of a group, as in /etc/group", s)
	}
	return nil
}

func checkDiscovery(s string) error {
	if !strings.Contains(s, "://") {
		return nodeFile(s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not an absolute path or an https URL", apiaddress.Redact(s))
	}
	authority := u.Host
	if u.User != nil {
		authority = "@" + u.Host
	}
	if err := apiaddress.CheckAuthority(authority); err != nil {
		return fmt.Errorf("%q: %w", apiaddress.Redact(s), err)
	}
	return nil
}

// nodeFile checks the path of a file of the node. A device such as /dev/zero has no end.
func nodeFile(s string) error {
	if err := absolutePath(s); err != nil {
		return err
	}
	if p := path.Clean(s); p == "/" || p == "/dev" || strings.HasPrefix(p, "/dev/") {
		return fmt.Errorf("%q is not a file", s)
	}
	return nil
}

func checkPins(l []string) error {
	if len(l) == 0 {
		return fmt.Errorf("at least one pin is needed: an empty list trusts no CA")
	}
	for _, p := range l {
		hex, ok := strings.CutPrefix(p, "sha256:")
		if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdefABCDEF") != "" {
			return fmt.Errorf(
				"invalid pin %q: sha256: and 64 hex digits are needed, as `kubeadm token create --print-join-command` prints them",
				p,
			)
		}
	}
	return nil
}

// Memory reads an amount of memory as a detector block has it: bytes, Mi or Gi.
func Memory(s string) (int64, error) {
	digits := s
	unit := int64(1)
	for suffix, n := range map[string]int64{"Mi": 1 << 20, "Gi": 1 << 30} {
		if d, ok := strings.CutSuffix(s, suffix); ok {
			digits = d
			unit = n
		}
	}
	n, err := strconv.ParseInt(digits, 10, 40)
	if err != nil || n > 1<<40/unit {
		return 0, fmt.Errorf("invalid amount of memory %q; write it as 128Mi or 1Gi", s)
	}
	return n * unit, nil
}

// leastMemory is the memory that a program in C needs to start; see the limit of prelet-detect.
const leastMemory = 128 << 20

func memory(s string) error {
	n, err := Memory(s)
	if err == nil && n < leastMemory {
		err = fmt.Errorf("%s is too little: a detector needs 128Mi to start", s)
	}
	return err
}

func grantable(l []string) error {
	for _, p := range l {
		const form = "write the absolute path of a file or a folder, such as %q, in which * stands for a part of a name"
		example := path.Clean(p)
		if !path.IsAbs(p) {
			example = path.Join("/dev", path.Base(p))
		}
		_, err := path.Match(p, "x")
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a valid pattern: "+form, p, "/dev/nvidia*")
		case path.Clean(p) == "/":
			return fmt.Errorf("%q would grant the whole machine: "+form, p, "/var/lib/NAME")
		case strings.Contains(p, "**"):
			return fmt.Errorf("%q has **, and folders below are granted with their folder: "+form, p, "/dev/nvidia*")
		case !path.IsAbs(p) || path.Clean(p) != p:
			return fmt.Errorf("%q cannot be granted: "+form, p, example)
		case matchesTwo("/"+strings.Split(p, "/")[1], "/etc", "/usr", "/var", "/dev"):
			return fmt.Errorf("%q would grant every folder of the machine: "+form, p, "/var/lib/NAME")
		}
	}
	return nil
}

// matchesTwo reports whether a pattern means two of some names that have nothing in common.
func matchesTwo(pattern string, names ...string) bool {
	count := 0
	for _, name := range names {
		if isMatch, _ := path.Match(pattern, name); isMatch {
			count++
		}
	}

	return count > 1
}

// isVague reports whether the name after /dev/ is a pattern with less than two characters before its first * or ?.
func isVague(pattern string) bool {
	name, _, _ := strings.Cut(strings.TrimPrefix(pattern, "/dev/"), "/")
	i := strings.IndexAny(name, "*?")
	isClass := i > 0 && name[0] == '[' && strings.IndexByte(name, ']') == i-1

	return i == 0 || i == 1 || isClass
}

// grantableDevices also refuses all of /dev: a detector that may open each disk, and memory, is not contained.
func grantableDevices(l []string) error {
	if err := grantable(l); err != nil {
		return err
	}
	for _, p := range l {
		isFolder, _ := path.Match(p, "/dev")
		if isFolder || isVague(p) || matchesTwo(p, "/dev/mem", "/dev/sda", "/dev/nvme0n1", "/dev/nvidia0", "/dev/tty0") {
			return fmt.Errorf("%q would grant all devices or many kinds, disks or memory among them: name those that the "+
				"detector needs, such as \"/dev/nvidia*\"; prelet detectors list shows what it asks for", p)
		}
	}
	return nil
}
