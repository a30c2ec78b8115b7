package write

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/platform/apiaddress"
	"github.com/prelet/prelet/schema"
)

const (
	runtimeBlock  = "runtime"
	registryBlock = "registry"
	hostBlock     = "host"
	cdiBlock      = "cdi"
	handlerBlock  = "handler"

	purposeRuntime = "runtime"
)

var (
	runtimeName = schema.Attr[string]{
		Name:    "name",
		Default: containerd,
		OneOf:   []string{containerd, crio},
		Doc: "Which runtime the settings are for. It is written down because an image may be planned on another " +
			"machine. On a machine with another runtime the block is left out, with a warning.",
	}
	runtimeUnit = schema.Attr[string]{
		Name:        "unit",
		DefaultText: "`" + containerdUnit + "`, or `" + crioUnit + "`",
		Check:       checkNotEmpty,
		Doc: "Its unit. It is restarted, and after it the kubelet, when the settings change; a restart stage with " +
			"the same unit sets `timeout` and `settle`.",
	}
	runtimePath = schema.Attr[string]{
		Name:        "path",
		DefaultText: "`" + containerdDropIn + "`, or `" + crioDropIn + "`",
		Check:       checkKubeletPath,
		Doc:         "The drop-in with the settings.",
	}
	runtimeSandbox = schema.Attr[string]{
		Name:  "sandbox_image",
		Check: checkNotEmpty,
		Doc:   "The image of a pod's sandbox, as `registry.k8s.io/pause:3.10`.",
	}
	runtimeDriver = schema.Attr[string]{
		Name:        "cgroup_driver",
		OneOf:       []string{"systemd", "cgroupfs"},
		DefaultText: "the kubelet's, if its configuration, a drop-in of it or a flag sets one",
		Doc: "The cgroup driver: `cgroup_manager` of CRI-O; in containerd that of `runc`, and of other handlers with " +
			"its shim that choose none. `config` wins, and without this argument an option of the handler `runc`.",
	}
	runtimeConfig = schema.Attr[cty.Value]{
		Name: "config",
		Doc: "More settings, as an object: it is merged into the drop-in last. `containerd config dump` and " +
			"`crio config` print all settings with their names.",
	}

	registryServer = schema.Attr[string]{
		Name:  "server",
		Check: checkRegistryURL,
		Doc: "The registry itself, which is asked after all hosts; without it, `https://NAME`. For CRI-O a path has " +
			"to start with `/v2`, and is the whole path of the API.",
	}
	hostCapabilities = schema.Attr[[]string]{
		Name:    "capabilities",
		Default: []string{"pull", "resolve"},
		Check:   checkCapabilities,
		Doc: "`pull`, `resolve`, `push`. A host without `resolve` is not asked what a tag is; CRI-O asks it for " +
			"digests only, and has no `push`.",
	}
	hostCA = schema.Attr[string]{
		Name:  "ca",
		Check: checkProgramFolder,
		Doc:   "The path of a CA certificate, PEM. For containerd only.",
	}
	hostSkipVerify = schema.Attr[bool]{
		Name:    "skip_verify",
		Default: false,
		Doc:     "Whether any certificate is accepted; by CRI-O also a host without TLS.",
	}
	hostOverridePath = schema.Attr[bool]{
		Name:    "override_path",
		Default: false,
		Doc: "Whether the URL has the whole path of the API, so that `/v2` is not added. For CRI-O that path has to " +
			"start with `/v2`.",
	}

	cdiEnabled = schema.Attr[bool]{
		Name:    "enabled",
		Default: true,
		Doc:     "Whether the Container Device Interface is used. Without it, CRI-O gets an empty list of folders.",
	}
	cdiFolders = schema.Attr[[]string]{
		Name:  "spec_dirs",
		Check: checkSpecFolders,
		Doc:   "The folders with its specifications; those of the runtimes are `/etc/cdi` and `/var/run/cdi`.",
	}

	handlerType = schema.Attr[string]{
		Name:        "runtime_type",
		DefaultText: "`" + runcType + "`; CRI-O's own, `oci`",
		Check:       checkNotEmpty,
		Doc:         "The shim of containerd; for CRI-O `oci`, `vm` or `pod`.",
	}
	handlerOptions = schema.Attr[cty.Value]{
		Name: "options",
		Doc: "An object: for containerd the options of the shim (`BinaryName`, `SystemdCgroup`), for CRI-O the " +
			"other settings of the handler (`runtime_path`, `runtime_root`, `monitor_path`).",
	}
	handlerDefault = schema.Attr[bool]{
		Name:    "default",
		Default: false,
		Doc:     "Whether pods without a RuntimeClass use it.",
	}
)

// declareRuntime returns the block for the container runtime.
func declareRuntime() schema.Block {
	registry := schema.Block{
		Type:    registryBlock,
		Labels:  []string{"name"},
		ForEach: true,
		Doc: "A registry, as `docker.io`: `/etc/containerd/certs.d/NAME/hosts.toml`, which containerd reads at each " +
			"pull, so nothing is restarted, or `/etc/containers/registries.conf.d/90-prelet-NAME.conf`, for which " +
			"CRI-O is restarted. In containerd `_default` is for all others.",
		Fields: []schema.Field{registryServer},
		Blocks: []schema.Block{{
			Type:    hostBlock,
			Labels:  []string{"url"},
			ForEach: true,
			Doc:     "A mirror, as `https://mirror.example`. They are asked in their order.",
			Fields:  []schema.Field{hostCapabilities, hostCA, hostSkipVerify, hostOverridePath},
		}},
	}

	return schema.Block{
		Type:    runtimeBlock,
		Max:     1,
		ForEach: true,
		Doc: "Settings of containerd 2 or CRI-O, in a drop-in. When they change, the runtime is restarted and then " +
			"the kubelet, and both are judged: if one is unhealthy, the whole generation is rolled back. " +
			"See [the container runtime](../how-to/runtime.md).",
		Fields: []schema.Field{runtimeName, runtimeSandbox, runtimeDriver, runtimeConfig, runtimePath, runtimeUnit},
		Blocks: []schema.Block{
			registry,
			{
				Type:   cdiBlock,
				Max:    1,
				Doc:    "The Container Device Interface, with which device plugins and DRA drivers add devices.",
				Fields: []schema.Field{cdiEnabled, cdiFolders},
			},
			{
				Type:    handlerBlock,
				Labels:  []string{"name"},
				ForEach: true,
				Doc:     "A runtime handler, which the `handler` of a RuntimeClass names.",
				Fields:  []schema.Field{handlerType, handlerOptions, handlerDefault},
			},
		},
	}
}

// renderRuntime renders the files of the container runtime.
func (r *renderer) renderRuntime(b schema.Body, n node.Node) {
	switch {
	case r.isSkipped(b), !b.Known():
		r.whole = false
	case !r.isRuntime(b):
	case isCRIO(b):
		r.renderCRIO(b, n)
	default:
		r.renderContainerd(b, n)
	}
}

// isRuntime reports whether the settings are for the runtime of this machine, as far as that is known. It warns if they
// are not.
func (r *renderer) isRuntime(b schema.Body) bool {
	name := runtimeName.Of(b)
	found := r.in.Kubelet.Runtime
	if found == nil || r.in.Check || found.Name == name.V {
		return true
	}

	next := fmt.Sprintf("Write name = %q and settings of it", found.Name)
	if found.Name != containerd && found.Name != crio {
		next = "Write the settings of that runtime with a file block and notify"
	}
	r.warn(
		fault.RuntimeUnfit, b.Range, "The runtime is not "+name.V,
		"This machine is configured for %s, so the block is left out. %s, or leave the block out on such machines: "+
			"when = …", found.Name, next,
	)

	return false
}

// runtimeTarget returns the path of the drop-in.
func runtimeTarget(b schema.Body) string {
	preset := containerdDropIn
	if isCRIO(b) {
		preset = crioDropIn
	}

	return cmp.Or(runtimePath.Of(b).V, preset)
}

// addRuntimeFile adds a file of the block runtime, or of one in it, which the runtime reads when it starts. driver is
// the cgroup driver that the file gives; "" if it gives none.
func (r *renderer) addRuntimeFile(runtime, b schema.Body, file string, document any, driver string) {
	text, err := toml.Marshal(document)
	if err != nil {
		r.fail(fault.WrongType, b.Range, "The settings of the runtime cannot be written", "%s.", err)
		return
	}

	unit := containerdUnit
	if isCRIO(runtime) {
		unit = crioUnit
	}
	r.add(b, node.File{
		Path:    file,
		Kind:    node.Regular,
		Mode:    0o644,
		Text:    value.PlainText("# Written by prelet, from " + r.in.Address + " of the site.\n" + string(text)),
		Purpose: purposeRuntime,
		Origins: place(r.in.Address, b.Range),
		Runtime: &node.Runtime{
			Unit:         cmp.Or(runtimeUnit.Of(runtime).V, unit),
			CgroupDriver: driver,
			Range:        runtimeUnit.Of(runtime).Range,
		},
	})
}

// chooseDriver returns the cgroup driver of the site. Without one it is the kubelet's, if that is set and the settings
// leave it open; "" for none.
func chooseDriver(b schema.Body, n node.Node, isChosen bool) string {
	driver := runtimeDriver.Of(b).V
	if driver == "" && !isChosen {
		driver, _ = n.Effective["cgroupDriver"].(string) // with drop-ins and flags
	}

	return driver
}

// mergeMore merges the argument config into the settings; it wins.
func (r *renderer) mergeMore(config map[string]any, b schema.Body) (ok bool) {
	at := runtimeConfig.Of(b)
	more, ok := r.object(at, "the settings of the runtime")
	if lost := merge(config, more); ok && lost != "" {
		r.fail(fault.WrongType, at.Range, "config would remove other settings of the block",
			"%s is a table with settings, and config has another value for it. Write a table.", lost)
		return false
	}

	return ok
}

// runtimeHandler is a block handler.
type runtimeHandler struct {
	name      string
	options   map[string]any
	isDefault bool
	body      schema.Body
}

// listHandlers returns the runtime handlers.
func (r *renderer) listHandlers(b schema.Body) (handlers []runtimeHandler, ok bool) {
	var preset *schema.Body
	for _, h := range b.Blocks[handlerBlock] {
		name := h.Labels[0]
		if len(content.IsDNS1123Label(name)) > 0 {
			r.fail(fault.WrongType, h.Range, "Not the name of a handler",
				"%q: a RuntimeClass can name only small letters, digits and - inside, at most 63.", name)
			return nil, false
		}
		options, ok := r.object(handlerOptions.Of(h), "the options of a handler")
		if !ok {
			return nil, false
		}

		isSame := func(o runtimeHandler) bool { return o.name == name }
		if first := slices.IndexFunc(handlers, isSame); first >= 0 {
			r.fail(fault.Conflict, h.Range, "Two handlers with the name "+name,
				"The first is at %s. Give one another name.", formatPlace(handlers[first].body.Range))
			return nil, false
		}

		isDefault := handlerDefault.Of(h).V
		switch {
		case !isDefault:
		case preset != nil:
			r.fail(fault.Conflict, handlerDefault.Of(h).Range, "Two default handlers",
				"%s is the default too, at %s. Keep one.", preset.Labels[0], formatPlace(preset.Range))
			return nil, false
		default:
			preset = &h
		}
		handlers = append(handlers, runtimeHandler{name, options, isDefault, h})
	}

	return handlers, true
}

// isRegistry reports whether the block names a registry, with valid hosts.
func (r *renderer) isRegistry(b schema.Body) bool {
	name := b.Labels[0]
	switch {
	case strings.Contains(name, "@"): // the text before it may be a password
		r.fail(fault.WrongType, b.Range, "Not a registry", "Its name has an @. Write a host name, as docker.io.")
		return false
	case name == "", name == ".", name == "..", strings.ContainsAny(name, "/ \n"):
		r.fail(fault.WrongType, b.Range, "Not a registry",
			"%q: a host name without a path is needed, with a port if it has one, as docker.io.", name)
		return false
	}

	for _, h := range b.Blocks[hostBlock] {
		if err := checkRegistryURL(h.Labels[0]); err != nil {
			r.fail(fault.WrongType, h.Range, "Not a host", "%s.", err)
			return false
		}
	}

	return true
}

// object returns an attribute that is an object of settings; nil if it is not set.
func (r *renderer) object(v schema.Value[cty.Value], what string) (settings map[string]any, ok bool) {
	plain, secrets, _ := value.Plain(v.Cty)
	switch {
	case len(secrets) > 0:
		r.fail(fault.Sensitive, v.Range, "A secret cannot be used in "+what,
			"Every user of the node can read them. Write it to a separate file.")
		return nil, false
	case plain.IsNull():
		return nil, true
	}

	converted, err := value.ToGo(plain)
	settings, isObject := converted.(map[string]any)
	if err != nil || !isObject || isUnfit(converted) {
		r.fail(
			fault.WrongType, v.Range, "Wrong type for "+what,
			"An object is needed, with texts, whole numbers, booleans and lists in it, and without null.",
		)
		return nil, false
	}

	return settings, true
}

// get returns a value in nested tables.
func get(table map[string]any, at ...string) (v any, ok bool) {
	for _, key := range at[:len(at)-1] {
		table, ok = table[key].(map[string]any)
		if !ok {
			return nil, false
		}
	}
	v, ok = table[at[len(at)-1]]

	return v, ok
}

// set sets a value in nested tables.
func set(table map[string]any, v any, at ...string) {
	for _, key := range at[:len(at)-1] {
		inner, ok := table[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			table[key] = inner
		}
		table = inner
	}
	table[at[len(at)-1]] = v
}

// merge merges tables; more wins. lost is the name of a table that another value would replace; "" for none.
func merge(table, more map[string]any) (lost string) {
	for _, key := range slices.Sorted(maps.Keys(more)) {
		inner, isTable := table[key].(map[string]any)
		added, isAdded := more[key].(map[string]any)
		switch {
		case isTable && isAdded:
			if below := merge(inner, added); below != "" {
				lost = key + "." + below
			}
		case isTable:
			lost = key
		default:
			table[key] = more[key]
		}
	}

	return lost
}

// isUnfit reports whether settings contain a null, which TOML does not have, or a fraction, which no setting has.
func isUnfit(v any) bool {
	switch x := v.(type) {
	case nil, json.Number:
		return true
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(x)), isUnfit)
	case []any:
		return slices.ContainsFunc(x, isUnfit)
	}

	return false
}

func checkRegistryURL(s string) error {
	_, err := parseRegistryURL(s)

	return err
}

// parseRegistryURL parses the URL of a registry. All users of the node can read it, so it must not have credentials,
// and no error repeats a text that may have them.
func parseRegistryURL(s string) (*url.URL, error) {
	if strings.ContainsAny(s, "@?#") {
		return nil, errors.New("a URL with a user, a query or a fragment is refused: all users of the node could " +
			"read it. Write the scheme, the host and the path, as https://mirror.example")
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("this is not a URL of a registry; write it as https://mirror.example")
	}
	if u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is not a URL of a registry; write it as https://mirror.example", s)
	}
	if err := apiaddress.CheckAuthority(u.Host); err != nil {
		return nil, fmt.Errorf("%q: %w", s, err)
	}

	return u, nil
}

func checkSpecFolders(folders []string) error {
	if len(folders) == 0 {
		return errors.New("without folders no device is found; name some, or write enabled = false")
	}

	return nil
}

func checkCapabilities(words []string) error {
	all := []string{"pull", "resolve", "push"}
	if len(words) == 0 {
		return errors.New("an empty list means all of them to containerd; name some, or leave the argument out")
	}
	for _, w := range words {
		if !slices.Contains(all, w) {
			return fmt.Errorf("%q is not one of %s", w, strings.Join(all, ", "))
		}
	}

	return nil
}
