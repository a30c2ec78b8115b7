package write

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

const (
	runtimeBlock  = "runtime"
	registryBlock = "registry"
	hostBlock     = "host"
	cdiBlock      = "cdi"
	handlerBlock  = "handler"

	purposeRuntime = "runtime"

	containerdConfig = "/etc/containerd/config.toml"
	containerdDropIn = "/etc/containerd/conf.d/90-prelet.toml"
	containerdCerts  = "/etc/containerd/certs.d"

	// The plugins of containerd 2 in whose sections the settings are. Source: containerd's docs/cri/config.md.
	imagesPlugin  = "io.containerd.cri.v1.images"
	runtimePlugin = "io.containerd.cri.v1.runtime"

	runcHandler   = "runc"
	runcType      = "io.containerd.runc.v2"
	systemdCgroup = "SystemdCgroup" // the option of runc's shim
)

var (
	runtimeUnit = schema.Attr[string]{
		Name:    "unit",
		Default: "containerd.service",
		Check:   checkNotEmpty,
		Doc: "Its unit. It is restarted, and after it the kubelet, when the settings change; a restart stage with " +
			"the same unit sets `timeout` and `settle`.",
	}
	runtimePath = schema.Attr[string]{
		Name:    "path",
		Default: containerdDropIn,
		Check:   checkPath,
		Doc:     "The drop-in with the settings.",
	}
	runtimeSandbox = schema.Attr[string]{
		Name:  "sandbox_image",
		Check: checkNotEmpty,
		Doc:   "The image of a pod's sandbox, as `registry.k8s.io/pause:3.10`.",
	}
	runtimeDriver = schema.Attr[string]{
		Name:        "cgroup_driver",
		OneOf:       []string{"systemd", "cgroupfs"},
		DefaultText: "`cgroupDriver` of the kubelet's configuration, if that is set",
		Doc:         "The cgroup driver of `runc`. `config` wins, and without this argument an option of its handler.",
	}
	runtimeConfig = schema.Attr[cty.Value]{
		Name: "config",
		Doc: "More settings, as an object: it is merged into the drop-in last. `containerd config dump` prints all " +
			"settings with their names.",
	}

	registryServer = schema.Attr[string]{
		Name:  "server",
		Check: checkRegistryURL,
		Doc:   "The registry itself, which is asked after all hosts; without it, `https://NAME`.",
	}
	hostCapabilities = schema.Attr[[]string]{
		Name:    "capabilities",
		Default: []string{"pull", "resolve"},
		Check:   checkCapabilities,
		Doc:     "`pull`, `resolve`, `push`. A host without `resolve` is not asked what a tag is.",
	}
	hostCA = schema.Attr[string]{
		Name:  "ca",
		Check: checkProgramFolder,
		Doc:   "The path of a CA certificate, PEM.",
	}
	hostSkipVerify = schema.Attr[bool]{
		Name:    "skip_verify",
		Default: false,
		Doc:     "Whether any certificate is accepted.",
	}
	hostOverridePath = schema.Attr[bool]{
		Name:    "override_path",
		Default: false,
		Doc:     "Whether the URL has the whole path of the API, so that `/v2` is not added.",
	}

	cdiEnabled = schema.Attr[bool]{
		Name:    "enabled",
		Default: true,
		Doc:     "Whether the Container Device Interface is used.",
	}
	cdiFolders = schema.Attr[[]string]{
		Name: "spec_dirs",
		Doc:  "The folders with its specifications; containerd's own are `/etc/cdi` and `/var/run/cdi`.",
	}

	handlerType = schema.Attr[string]{
		Name:    "runtime_type",
		Default: runcType,
		Check:   checkNotEmpty,
		Doc:     "The shim.",
	}
	handlerOptions = schema.Attr[cty.Value]{
		Name: "options",
		Doc:  "Options of the shim, as an object: `BinaryName`, `SystemdCgroup`.",
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
		Doc: "A registry, as `docker.io`, or `_default` for all others: " +
			"`/etc/containerd/certs.d/NAME/hosts.toml`. containerd reads it at each pull, so nothing is restarted.",
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
		Doc: "Settings of containerd 2, in a drop-in. When they change, containerd is restarted and then the " +
			"kubelet, and both are judged: if one is unhealthy, the whole generation is rolled back. " +
			"See [the container runtime](../how-to/runtime.md).",
		Fields: []schema.Field{runtimeSandbox, runtimeDriver, runtimeConfig, runtimePath, runtimeUnit},
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

// renderRuntime renders the drop-in of containerd and the files of its registries.
func (r *renderer) renderRuntime(b schema.Body, n node.Node) {
	if r.isSkipped(b) || !b.Known() {
		r.whole = false
		return
	}

	if !r.isRuntimeFit(b) {
		return
	}
	config, driver, ok := r.makeRuntimeConfig(b, n)
	if !ok {
		return
	}
	for _, registry := range b.Blocks[registryBlock] {
		r.renderRegistry(registry)
	}
	if len(config) == 0 {
		return
	}
	if !r.isImported(runtimePath.Of(b).V) {
		driver = ""
	}
	config["version"] = int64(3)
	r.addTOML(b, config, node.File{
		Path: runtimePath.Of(b).V,
		Runtime: &node.Runtime{
			Unit:         runtimeUnit.Of(b).V,
			CgroupDriver: driver,
			Range:        runtimeUnit.Of(b).Range,
		},
	})
}

// addTOML adds a file of the runtime.
func (r *renderer) addTOML(b schema.Body, document map[string]any, f node.File) {
	text, err := toml.Marshal(document)
	if err != nil {
		r.fail(fault.WrongType, b.Range, "The settings of the runtime cannot be written", "%s.", err)
		return
	}
	f.Kind = node.Regular
	f.Mode = 0o644
	f.Text = value.PlainText("# Written by prelet, from " + r.in.Address + " of the site.\n" + string(text))
	f.Purpose = purposeRuntime
	f.Origins = place(r.in.Address, b.Range)
	r.add(b, f)
}

// isRuntimeFit reports whether the settings may be written, and warns of a runtime that would not read them as they are
// meant. Up to 1.7 a drop-in replaces the whole section of a plugin: services/server/config/config.go, mergeConfig.
func (r *renderer) isRuntimeFit(b schema.Body) bool {
	runtime := r.in.Kubelet.Runtime
	if runtime == nil || r.in.Check {
		return true
	}

	file := runtimePath.Of(b)
	isOldVersion := strings.HasPrefix(strings.TrimPrefix(runtime.Version, "v"), "1.")
	isOldConfig := runtime.ConfigVersion == 1 || runtime.ConfigVersion == 2
	switch {
	case runtime.Name != "containerd":
		r.warn(
			fault.RuntimeUnfit, b.Range, "The runtime is not containerd",
			"This machine is configured for %s, so the block is left out. Write its settings with a file block "+
				"and notify.", runtime.Name,
		)
		return false
	case isOldVersion, isOldConfig:
		what := fmt.Sprintf("%s has version %d", containerdConfig, runtime.ConfigVersion)
		if isOldVersion {
			what = "this is containerd " + runtime.Version
		}
		r.warn(
			fault.RuntimeUnfit, b.Range, "The runtime is too old for a drop-in",
			"The block is for containerd 2 with a configuration of version 3, and %s. A containerd before 2.0 would "+
				"replace whole sections, so the block is left out. Update it, with `containerd config migrate`, or "+
				"write all of %s with a file block.", what, containerdConfig,
		)
		return false
	case !r.isImported(file.V):
		r.warn(
			fault.RuntimeUnfit, file.Range, "containerd does not read "+file.V,
			"%s does not import it, so the settings have no effect. Add this line at its top: imports = [%q]",
			containerdConfig, path.Join(path.Dir(file.V), "*.toml"),
		)
	}

	return true
}

// isImported reports whether containerd reads a drop-in, as far as that is known. Imports are patterns, absolute or
// relative to config.toml.
func (r *renderer) isImported(file string) bool {
	runtime := r.in.Kubelet.Runtime
	if runtime == nil || runtime.ConfigVersion == 0 {
		return true
	}

	return slices.ContainsFunc(runtime.Imports, func(pattern string) bool {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(containerdConfig), pattern)
		}
		isMatch, err := path.Match(pattern, file)
		return isMatch && err == nil
	})
}

// makeRuntimeConfig returns the settings of the drop-in, and the cgroup driver that they give; "" if they give none.
func (r *renderer) makeRuntimeConfig(b schema.Body, n node.Node) (config map[string]any, driver string, ok bool) {
	config = map[string]any{}
	if image := runtimeSandbox.Of(b); image.Set() {
		set(config, image.V, "plugins", imagesPlugin, "pinned_images", "sandbox")
	}
	if len(b.Blocks[registryBlock]) > 0 {
		set(config, containerdCerts, "plugins", imagesPlugin, "registry", "config_path")
	}
	if cdi, has := b.One(cdiBlock); has {
		set(config, cdiEnabled.Of(cdi).V, "plugins", runtimePlugin, "enable_cdi")
		if folders := cdiFolders.Of(cdi); folders.Set() {
			set(config, folders.V, "plugins", runtimePlugin, "cdi_spec_dirs")
		}
	}
	if !r.addHandlers(config, b) {
		return nil, "", false
	}

	addDriver(config, runtimeDriver.Of(b).V, n)

	more, fits := r.object(runtimeConfig.Of(b), "the settings of containerd")
	if !fits {
		return nil, "", false
	}
	merge(config, more)

	return config, driverOf(config), true
}

// addDriver adds the cgroup driver of runc. Without one in the site it is the kubelet's, if that is set and the options
// of the handler leave it open.
func addDriver(config map[string]any, driver string, n node.Node) {
	_, isChosen := get(config, optionOf(runcHandler, systemdCgroup)...)
	if driver == "" && !isChosen {
		driver, _ = n.Config["cgroupDriver"].(string)
	}
	if driver == "" {
		return
	}

	kind := handlerAt(runcHandler, "runtime_type")
	if _, has := get(config, kind...); !has {
		set(config, runcType, kind...)
	}
	set(config, driver == "systemd", optionOf(runcHandler, systemdCgroup)...)
}

// driverOf returns the cgroup driver that containerd reports with these settings; "" if they do not say. containerd
// asks its default handler first: internal/cri/server/runtime_config_linux.go, getCgroupDriver.
func driverOf(config map[string]any) string {
	preset, _ := get(config, "plugins", runtimePlugin, "containerd", "default_runtime_name")
	name, isText := preset.(string)
	if !isText {
		name = runcHandler
	}

	isSystemd, has := get(config, optionOf(name, systemdCgroup)...)
	switch {
	case !has:
		return ""
	case isSystemd == true:
		return "systemd"
	default:
		return "cgroupfs"
	}
}

// handlerAt returns the place of a setting of a runtime handler.
func handlerAt(name string, setting ...string) []string {
	return append([]string{"plugins", runtimePlugin, "containerd", "runtimes", name}, setting...)
}

// optionOf returns the place of an option of the handler's shim.
func optionOf(name, option string) []string {
	return handlerAt(name, "options", option)
}

// addHandlers adds the runtime handlers.
func (r *renderer) addHandlers(config map[string]any, b schema.Body) (ok bool) {
	handlers := b.Blocks[handlerBlock]
	var preset *schema.Body
	for i, h := range handlers {
		name := h.Labels[0]
		options, fits := r.object(handlerOptions.Of(h), "the options of a shim")
		if !fits {
			return false
		}
		set(config, handlerType.Of(h).V, handlerAt(name, "runtime_type")...)
		if len(options) > 0 {
			set(config, options, handlerAt(name, "options")...)
		}

		isSame := func(o schema.Body) bool { return o.Labels[0] == name }
		if first := slices.IndexFunc(handlers[:i], isSame); first >= 0 {
			r.fail(fault.Conflict, h.Range, "Two handlers with the name "+name,
				"The first is at %s. Give one another name.", formatPlace(handlers[first].Range))
			return false
		}
		if !handlerDefault.Of(h).V {
			continue
		}
		if preset != nil {
			r.fail(fault.Conflict, handlerDefault.Of(h).Range, "Two default handlers",
				"%s is the default too, at %s. Keep one.", preset.Labels[0], formatPlace(preset.Range))
			return false
		}
		preset = &h
		set(config, name, "plugins", runtimePlugin, "containerd", "default_runtime_name")
	}

	return true
}

// renderRegistry renders one hosts.toml. Source: containerd's docs/hosts.md.
func (r *renderer) renderRegistry(b schema.Body) {
	name := b.Labels[0]
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/ \n") {
		r.fail(fault.WrongType, b.Range, "Not a registry",
			"%q: a host name is needed, with a port if it has one, as docker.io; or _default.", name)
		return
	}

	document := map[string]any{}
	if server := registryServer.Of(b); server.Set() {
		document["server"] = server.V
	}
	// A table of TOML has no order, and containerd asks the hosts in the order of the text.
	var text strings.Builder
	head, _ := toml.Marshal(document) // cannot fail: it has one text
	text.WriteString("# Written by prelet, from " + r.in.Address + " of the site.\n" + string(head))
	for _, h := range b.Blocks[hostBlock] {
		u := h.Labels[0]
		if err := checkRegistryURL(u); err != nil {
			r.fail(fault.WrongType, h.Range, "Not a host", "%s.", err)
			return
		}
		options := map[string]any{"capabilities": hostCapabilities.Of(h).V}
		if ca := hostCA.Of(h); ca.Set() {
			options["ca"] = ca.V
		}
		if hostSkipVerify.Of(h).V {
			options["skip_verify"] = true
		}
		if hostOverridePath.Of(h).V {
			options["override_path"] = true
		}
		part, err := toml.Marshal(map[string]any{"host": map[string]any{u: options}})
		if err != nil {
			r.fail(fault.WrongType, h.Range, "The host cannot be written", "%s.", err)
			return
		}
		text.WriteString("\n" + strings.TrimPrefix(string(part), "[host]\n"))
	}

	r.add(b, node.File{
		Path:    path.Join(containerdCerts, name, "hosts.toml"),
		Kind:    node.Regular,
		Text:    value.PlainText(text.String()),
		Mode:    0o644,
		Notify:  []string{}, // containerd reads it at each pull
		Purpose: purposeRuntime,
		Origins: place(r.in.Address, b.Range),
	})
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

// merge merges tables; more wins.
func merge(table, more map[string]any) {
	for key, v := range more {
		inner, isTable := table[key].(map[string]any)
		added, isAdded := v.(map[string]any)
		if isTable && isAdded {
			merge(inner, added)
			continue
		}
		table[key] = v
	}
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
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%q is not a URL of a registry; write it as https://mirror.example", s)
	}

	return nil
}

func checkCapabilities(words []string) error {
	all := []string{"pull", "resolve", "push"}
	for _, w := range words {
		if !slices.Contains(all, w) {
			return fmt.Errorf("%q is not one of %s", w, strings.Join(all, ", "))
		}
	}

	return nil
}
