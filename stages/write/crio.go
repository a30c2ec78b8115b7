package write

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

const (
	crio           = "cri-o"
	crioUnit       = "crio.service"
	crioConfig     = "/etc/crio/crio.conf"
	crioFolder     = "/etc/crio/crio.conf.d"
	crioDropIn     = crioFolder + "/90-prelet.conf"
	crioRegistries = "/etc/containers/registries.conf.d"
	crioCerts      = "/etc/containers/certs.d"

	// dockerHub is the name of docker.io in images. CRI-O knows its host, has credentials for this name, and refuses
	// images of the other name.
	dockerHub      = "docker.io"
	otherDockerHub = "index.docker.io"

	// digestOnly is for a mirror that is not asked what a tag is.
	digestOnly = "digest-only"
)

// isCRIO reports whether the block is for CRI-O.
func isCRIO(b schema.Body) bool {
	return runtimeName.Of(b).V == crio
}

// renderCRIO renders the drop-in of CRI-O and the files of its registries. CRI-O reads all of them when it starts. It
// reads registries again when it is reloaded, but then it only logs an error in them, and fails at its next start:
// server/server.go, startReloadWatcher. So it is restarted for them too.
func (r *renderer) renderCRIO(b schema.Body, n node.Node) {
	if runtimeTarget(b) == crioConfig {
		r.fail(fault.PathInvalid, runtimePath.Of(b).Range, "This is not a drop-in",
			"The settings would replace all of %s. Leave path out, or write a path in %s.", crioConfig, crioFolder)
		return
	}
	config, ok := r.makeCRIOConfig(b, n)
	if !ok {
		return
	}
	for _, registry := range b.Blocks[registryBlock] {
		r.renderRegistry(b, registry)
	}
	if len(config) == 0 {
		return
	}

	// CRI-O reports cgroup_manager as its driver: server/runtime_config.go.
	file := runtimeTarget(b)
	manager, _ := get(config, "crio", "runtime", "cgroup_manager")
	driver, _ := manager.(string)
	if !strings.HasPrefix(file, crioFolder+"/") {
		driver = ""
		r.warn(
			fault.RuntimeUnfit, runtimePath.Of(b).Range, "CRI-O does not read "+file,
			"It reads the files in %s, unless it is started with another --config-dir, so the settings have no "+
				"effect. Leave path out, or write a path in that folder.", crioFolder,
		)
	}
	r.addRuntimeFile(b, b, file, config, driver)
}

// makeCRIOConfig returns the settings of the drop-in. Source: CRI-O's docs/crio.conf.5.md and pkg/config/config.go.
func (r *renderer) makeCRIOConfig(b schema.Body, n node.Node) (config map[string]any, ok bool) {
	config = map[string]any{}
	if image := runtimeSandbox.Of(b); image.Set() {
		set(config, image.V, "crio", "image", "pause_image")
	}
	if !r.addCDI(config, b) || !r.addCRIOHandlers(config, b) {
		return nil, false
	}
	if driver := chooseDriver(b, n, false); driver != "" {
		set(config, driver, "crio", "runtime", "cgroup_manager")
	}

	if !r.mergeMore(config, b) {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if _, isTable := config[key].(map[string]any); key != "crio" || !isTable { // CRI-O would ignore it silently
			at := runtimeConfig.Of(b).KeyRange(key)
			r.fail(fault.Conflict, at, "CRI-O has no setting "+key,
				"All of its settings are in the table crio: write config = { crio = { … } }.")
			return nil, false
		}
	}

	// With cgroupfs CRI-O starts only if its monitors are in the cgroup of the pod, or in none of their own:
	// TranslateMonitorFieldsForHandler. Another file may name a slice.
	const cgroup = "conmon_cgroup"
	manager, _ := get(config, "crio", "runtime", "cgroup_manager")
	if _, has := get(config, "crio", "runtime", cgroup); manager == "cgroupfs" && !has {
		set(config, "pod", "crio", "runtime", cgroup)
	}

	return config, true
}

// addCDI adds the folders of the Container Device Interface. CRI-O cannot turn it off; without folders it finds no
// device.
func (r *renderer) addCDI(config map[string]any, b schema.Body) (ok bool) {
	cdi, has := b.One(cdiBlock)
	if !has {
		return true
	}

	// The folders of CRI-O itself are written too: an earlier file may have an empty list.
	folders := cdiFolders.Of(cdi)
	isOff := !cdiEnabled.Of(cdi).V
	switch {
	case isOff && folders.Set():
		r.fail(fault.Conflict, folders.Range, "CDI is off, and has folders",
			"CRI-O has no switch for CDI: enabled = false writes an empty list of folders. Keep one of the two.")
		return false
	case isOff:
		set(config, []string{}, "crio", "runtime", "cdi_spec_dirs")
	case folders.Set():
		set(config, folders.V, "crio", "runtime", "cdi_spec_dirs")
	default:
		set(config, []string{"/etc/cdi", "/var/run/cdi"}, "crio", "runtime", "cdi_spec_dirs")
	}

	return true
}

// addCRIOHandlers adds the runtime handlers.
func (r *renderer) addCRIOHandlers(config map[string]any, b schema.Body) (ok bool) {
	handlers, ok := r.listHandlers(b)
	if !ok {
		return false
	}

	for _, h := range handlers {
		if !r.isCRIOHandler(h) {
			return false
		}
		table := maps.Clone(h.options)
		if table == nil {
			table = map[string]any{}
		}
		if kind := handlerType.Of(h.body); kind.Set() {
			table["runtime_type"] = kind.V
		}
		set(config, table, "crio", "runtime", "runtimes", h.name)
		if h.isDefault {
			set(config, h.name, "crio", "runtime", "default_runtime")
		}
	}

	return true
}

// isCRIOHandler refuses what a handler of CRI-O does not have, and what CRI-O would ignore silently.
func (r *renderer) isCRIOHandler(h runtimeHandler) bool {
	kinds := []string{"oci", "vm", "pod"} // source: ValidateRuntimeType
	if kind := handlerType.Of(h.body); kind.Set() && !slices.Contains(kinds, kind.V) {
		r.fail(fault.Conflict, kind.Range, "CRI-O has no runtime_type "+kind.V,
			"Its types are %s. Leave it out for a program as runc, and write its path in options: "+
				"{ runtime_path = \"/usr/bin/runc\" }.", strings.Join(kinds, ", "))
		return false
	}

	for _, key := range slices.Sorted(maps.Keys(h.options)) {
		next := ""
		switch {
		case key == "BinaryName":
			next = "Write runtime_path."
		case key == systemdCgroup:
			next = "Write cgroup_driver in the block runtime: CRI-O has one driver for all handlers."
		case key == "runtime_type":
			next = "Write it as the argument runtime_type of the handler."
		case key != strings.ToLower(key):
			next = "Options with capital letters are those of containerd's shims; crio.conf(5) has the settings of a " +
				"handler, in its table crio.runtime.runtimes."
		default:
			continue
		}
		r.fail(fault.Conflict, handlerOptions.Of(h.body).KeyRange(key), "CRI-O has no option "+key, "%s", next)
		return false
	}

	return true
}

// registriesConf is a file below registries.conf.d. Source: containers-registries.conf(5).
type registriesConf struct {
	Registries []registryEntry `toml:"registry"`
}

type registryEntry struct {
	Prefix   string        `toml:"prefix"`
	Location string        `toml:"location"`
	Insecure bool          `toml:"insecure,omitempty"`
	Mirrors  []mirrorEntry `toml:"mirror,omitempty"`
}

type mirrorEntry struct {
	Location string `toml:"location"`
	Insecure bool   `toml:"insecure,omitempty"`
	Pull     string `toml:"pull-from-mirror,omitempty"` // all, if it is empty
}

// renderRegistry renders one file of a registry.
func (r *renderer) renderRegistry(runtime, b schema.Body) {
	if !r.isRegistry(b) {
		return
	}
	name := b.Labels[0]
	if name == otherDockerHub {
		r.fail(fault.Conflict, b.Range, "No image has the registry "+name,
			"CRI-O reads the names of its images as those of %s. Write registry %q.", dockerHub, dockerHub)
		return
	}
	if !isLocation(name) {
		r.fail(fault.Conflict, b.Range, "CRI-O needs the host name of a registry",
			"%q: write it as in the name of an image, with a dot or a port: registry \"docker.io\". CRI-O has no "+
				"mirrors for all registries.", name)
		return
	}

	entry := registryEntry{Prefix: name, Location: name}
	if server := registryServer.Of(b); server.Set() {
		location, isInsecure, err := parseServer(server.V)
		if err != nil {
			r.fail(fault.Conflict, server.Range, "CRI-O cannot use this server", "%s.", err)
			return
		}
		entry.Location = location
		entry.Insecure = isInsecure
	}
	if entry.Location == "registry-1.docker.io" && name == dockerHub {
		entry.Location = name
	}

	for _, h := range b.Blocks[hostBlock] {
		mirror, ok := r.makeMirror(h)
		if !ok {
			return
		}
		entry.Mirrors = append(entry.Mirrors, mirror)
	}

	file := path.Join(crioRegistries, "90-prelet-"+name+".conf")
	r.addRuntimeFile(runtime, b, file, registriesConf{[]registryEntry{entry}}, "")
}

// makeMirror returns the mirror of a block host.
func (r *renderer) makeMirror(h schema.Body) (mirror mirrorEntry, ok bool) {
	location, isInsecure, err := parseLocation(h.Labels[0], hostOverridePath.Of(h).V)
	if err != nil {
		r.fail(fault.Conflict, h.Range, "CRI-O cannot use this host", "%s.", err)
		return mirror, false
	}

	if ca := hostCA.Of(h); ca.Set() {
		host, _, _ := strings.Cut(location, "/")
		r.fail(fault.Conflict, ca.Range, "CRI-O has no CA in its settings",
			"It reads the CA of a host from a folder. Remove ca, and write the certificate with a file block: "+
				"path = %q, content = file(%q)", path.Join(crioCerts, host, "ca.crt"), ca.V)
		return mirror, false
	}

	capabilities := hostCapabilities.Of(h)
	switch {
	case slices.Contains(capabilities.V, "push"):
		r.fail(fault.Conflict, capabilities.Range, "CRI-O does not push", "Remove \"push\".")
		return mirror, false
	case !slices.Contains(capabilities.V, "pull"):
		r.fail(fault.Conflict, capabilities.Range, "CRI-O pulls from each mirror",
			"Add \"pull\", or remove the host. Without \"resolve\" CRI-O asks it for digests only.")
		return mirror, false
	case !slices.Contains(capabilities.V, "resolve"):
		mirror.Pull = digestOnly
	}
	mirror.Location = location
	mirror.Insecure = isInsecure || hostSkipVerify.Of(h).V

	return mirror, true
}

// parseServer returns the URL of a server as a location, see parseLocation. A path below /v2 is the whole path of the
// API.
func parseServer(text string) (location string, isInsecure bool, err error) {
	u, err := parseRegistryURL(text)
	if err != nil {
		return "", false, err
	}

	api := path.Clean("/" + u.Path)
	if api != "/" && !strings.HasPrefix(api+"/", "/v2/") {
		return "", false, fmt.Errorf("it has the path %s, and CRI-O asks below /v2 only. If the registry is there "+
			"too, write %s", api, u.Scheme+"://"+u.Host+"/v2/PATH")
	}

	return parseLocation(text, api != "/")
}

// parseLocation returns a URL of a registry as a location: its host, and its path below /v2. isWhole: the URL has the
// whole path of the API. A location without TLS is insecure.
func parseLocation(text string, isWhole bool) (location string, isInsecure bool, err error) {
	u, err := parseRegistryURL(text)
	if err != nil {
		return "", false, err
	}

	api := path.Clean("/" + u.Path)
	if !isWhole && !strings.HasSuffix(api, "/v2") { // as containerd
		api = path.Join(api, "v2")
	}
	below, isBelow := strings.CutPrefix(api+"/", "/v2/")
	if !isBelow {
		return "", false, fmt.Errorf("the API of %s would be at %s, and CRI-O asks below /v2 only. A host that has it "+
			"there too is written as %s, with override_path = true", text, api, u.Scheme+"://"+u.Host+"/v2/PATH")
	}

	host := u.Host
	if host == otherDockerHub {
		host = dockerHub
	}
	location = path.Join(host, below)
	if !isLocation(location) {
		return "", false, fmt.Errorf("%q cannot be part of the name of an image: write a host name with a dot or a "+
			"port, not an IPv6 address, and a path in small letters", location)
	}

	return location, u.Scheme == "http", nil
}

// isLocation reports whether a text is a host with an optional port and path that can be part of the name of an image.
// With another one each pull would fail. Source: docker/reference/regexp.go of github.com/containers/image.
func isLocation(s string) bool {
	const (
		label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
		host  = `(?:localhost|` + label + `(?:(?:\.` + label + `)+|(?:\.` + label + `)*:[0-9]+))`
		part  = `/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	)

	return regexp.MustCompile(`^` + host + `(?:` + part + `)*$`).MatchString(s)
}
