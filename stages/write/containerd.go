package write

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/schema"
)

const (
	containerd       = "containerd"
	containerdUnit   = "containerd.service"
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

// renderContainerd renders the drop-in of containerd and the files of its registries.
func (r *renderer) renderContainerd(b schema.Body, n node.Node) {
	if runtimeTarget(b) == containerdConfig {
		r.fail(fault.PathInvalid, runtimePath.Of(b).Range, "This is not a drop-in",
			"The settings would replace all of %s. Write the path of a file that it imports, as %s.",
			containerdConfig, containerdDropIn)
		return
	}
	if !r.isContainerdFit(b) {
		return
	}
	if r.in.Unread.Kubelet && len(b.Blocks[registryBlock]) > 0 { // mirrors of the image decide the drop-in
		r.whole = false
		return
	}
	b = r.dropRegistries(b)

	config, ok := r.makeContainerdConfig(b, n)
	if !ok {
		return
	}
	for _, registry := range b.Blocks[registryBlock] {
		r.renderHosts(registry)
	}
	if len(config) == 0 {
		return
	}

	driver := driverOf(config)
	if !r.isImported(runtimeTarget(b)) {
		driver = ""
	}
	config["version"] = int64(3)
	r.addRuntimeFile(b, b, runtimeTarget(b), config, driver)
}

// isContainerdFit reports whether the settings may be written, and warns of a containerd that would not read them as
// they are meant. Up to 1.7 a drop-in replaces the whole section of a plugin: services/server/config/config.go,
// mergeConfig.
func (r *renderer) isContainerdFit(b schema.Body) bool {
	if r.in.Check {
		return true
	}

	file := runtimeTarget(b)
	runtime, hasConfig := r.findContainerd()
	isOldVersion := strings.HasPrefix(strings.TrimPrefix(runtime.Version, "v"), "1.")
	isOldConfig := runtime.ConfigVersion == 1 || runtime.ConfigVersion == 2
	switch {
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
	case !hasConfig:
		r.warn(
			fault.RuntimeUnfit, runtimePath.Of(b).Range, "containerd does not read "+file,
			"There is no %s, and without it containerd reads no drop-ins, so the settings have no effect. Write it "+
				"into the image, with two lines: version = 3 and imports = [%q]",
			containerdConfig, path.Join(path.Dir(file), "*.toml"),
		)
	case !r.isImported(file):
		r.warn(
			fault.RuntimeUnfit, runtimePath.Of(b).Range, "containerd does not read "+file,
			"%s does not import it, so the settings have no effect. Add this line at its top: imports = [%q]",
			containerdConfig, importOf(file),
		)
	}

	return true
}

// findContainerd returns what is known of containerd, and whether it has a config.toml. If the stage writes that file,
// its text counts, and not the file of the machine. Mirrors of the machine count all the same: they may be in a file
// that config.toml imports.
func (r *renderer) findContainerd() (runtime world.RuntimeAns, hasConfig bool) {
	if found := r.in.Kubelet.Runtime; found != nil {
		runtime = *found
	}

	hasConfig = !r.in.Kubelet.NoContainerdConfig
	i := slices.IndexFunc(r.cfg.Blocks["file"], func(b schema.Body) bool {
		return filePath.Of(b).V == containerdConfig && !(hasConfig && createOnly.Of(b).V)
	})
	if i < 0 {
		return runtime, hasConfig
	}

	var planned struct {
		Version int
		Imports []string
		Plugins map[string]struct {
			Registry struct{ Mirrors map[string]any }
		}
	}
	runtime.ConfigVersion, runtime.Imports = 0, nil // unknown
	text, err := value.TextOf(fileContent.Of(r.cfg.Blocks["file"][i]).Cty)
	if err != nil || toml.Unmarshal([]byte(text.Template()), &planned) != nil {
		return runtime, true
	}
	runtime.ConfigVersion = cmp.Or(planned.Version, 1)
	runtime.Imports = planned.Imports
	runtime.Mirrors = runtime.Mirrors || len(planned.Plugins[imagesPlugin].Registry.Mirrors) > 0

	return runtime, true
}

// dropRegistries returns the block without its registries, with a warning, if containerd would not load its CRI plugin
// with them.
func (r *renderer) dropRegistries(b schema.Body) schema.Body {
	registries := b.Blocks[registryBlock]
	runtime, _ := r.findContainerd()
	if len(registries) == 0 || !runtime.Mirrors {
		return b
	}

	r.warn(
		fault.RuntimeUnfit, registries[0].Range, "containerd would not start its CRI plugin with the registries",
		"%s, or a file that it imports, has registry.mirrors, which containerd refuses together with a folder of "+
			"hosts.toml. The registries are left out. Remove registry.mirrors there.", containerdConfig,
	)
	b.Blocks = maps.Clone(b.Blocks)
	delete(b.Blocks, registryBlock)

	return b
}

// importOf returns the import by which containerd reads a file.
func importOf(file string) string {
	if path.Ext(file) == ".toml" {
		return path.Join(path.Dir(file), "*.toml")
	}

	return file
}

// isImported reports whether containerd reads a drop-in, as far as that is known. Imports are patterns, absolute or
// relative to config.toml.
func (r *renderer) isImported(file string) bool {
	runtime, hasConfig := r.findContainerd()
	if !hasConfig || runtime.ConfigVersion == 0 {
		return hasConfig
	}

	return slices.ContainsFunc(runtime.Imports, func(pattern string) bool {
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(containerdConfig), pattern)
		}
		isMatch, err := path.Match(pattern, file)
		return isMatch && err == nil
	})
}

// makeContainerdConfig returns the settings of the drop-in.
func (r *renderer) makeContainerdConfig(b schema.Body, n node.Node) (config map[string]any, ok bool) {
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

	handlers, ok := r.listHandlers(b)
	if !ok {
		return nil, false
	}
	for _, h := range handlers {
		set(config, cmp.Or(handlerType.Of(h.body).V, runcType), handlerAt(h.name, "runtime_type")...)
		if len(h.options) > 0 {
			set(config, h.options, handlerAt(h.name, "options")...)
		}
		if h.isDefault {
			set(config, h.name, "plugins", runtimePlugin, "containerd", "default_runtime_name")
		}
	}

	setDriver(config, handlers, b, n)
	if !r.mergeMore(config, b) {
		return nil, false
	}

	// Source: internal/cri/config/config.go, ValidateImageConfig.
	mirrors, _ := get(config, "plugins", imagesPlugin, "registry", "mirrors")
	if table, _ := mirrors.(map[string]any); len(table) > 0 && len(b.Blocks[registryBlock]) > 0 {
		r.fail(fault.Conflict, runtimeConfig.Of(b).KeyRange("plugins"), "Two kinds of mirrors",
			"containerd refuses registry.mirrors together with the folder of the blocks registry. Write all mirrors "+
				"as blocks.")
		return nil, false
	}

	return config, true
}

// setDriver sets the cgroup driver of runc, and of the other handlers with runc's shim that do not choose one.
func setDriver(config map[string]any, handlers []runtimeHandler, b schema.Body, n node.Node) {
	_, isChosen := get(config, optionOf(runcHandler, systemdCgroup)...)
	if driver := chooseDriver(b, n, isChosen); driver != "" {
		kind := handlerAt(runcHandler, "runtime_type")
		if _, has := get(config, kind...); !has {
			set(config, runcType, kind...)
		}
		set(config, driver == "systemd", optionOf(runcHandler, systemdCgroup)...)
	}

	driver := chooseDriver(b, n, false)
	for _, h := range handlers {
		kind, _ := get(config, handlerAt(h.name, "runtime_type")...)
		_, isChosen = get(config, optionOf(h.name, systemdCgroup)...)
		if driver != "" && kind == runcType && !isChosen {
			set(config, driver == "systemd", optionOf(h.name, systemdCgroup)...)
		}
	}
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

// renderHosts renders one hosts.toml. Source: containerd's docs/hosts.md.
func (r *renderer) renderHosts(b schema.Body) {
	if !r.isRegistry(b) {
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
		Path:    path.Join(containerdCerts, b.Labels[0], "hosts.toml"),
		Kind:    node.Regular,
		Text:    value.PlainText(text.String()),
		Mode:    0o644,
		Notify:  []string{}, // containerd reads it at each pull
		Purpose: purposeRuntime,
		Origins: place(r.in.Address, b.Range),
	})
}
