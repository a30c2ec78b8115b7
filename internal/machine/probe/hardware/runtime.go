package hardware

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// RuntimeOf returns the container runtime that a machine is configured for, as Detect does. Root is a folder; ""
// is this machine. An unknown field is nil, and so is each field if the configuration could not be read in time.
func RuntimeOf(ctx context.Context, root string) tape.Runtime { return findRuntime(ctx, root).Runtime }

// configuredRuntime is a container runtime as its configuration describes it.
type configuredRuntime struct {
	tape.Runtime

	networks string // the folder of CNI's configuration; "" if no runtime was found
}

func findRuntime(ctx context.Context, root string) configuredRuntime {
	d := &detection{
		Tree:     hostTree{root},
		ctx:      ctx,
		patience: defaultPatience,
		facts:    emptyFacts(),
		evidence: map[string]string{},
	}

	runtime, err := callWithin(d, "reading the configuration of the container runtime", d.readRuntime)
	if err != nil || ctx.Err() != nil {
		return configuredRuntime{}
	}

	return runtime
}

const (
	containerdFile = "etc/containerd/config.toml"
	crioFolder     = "etc/crio/"
)

// readRuntime reads the configuration of the container runtime, which may not run yet, into the facts.
func (d *detection) readRuntime() (runtime configuredRuntime, err error) {
	containerd, containerdErr := d.readContainerd()
	crio, crioErr := d.readCRIO()
	hasContainerd, hasCRIO := containerdErr == nil, crioErr == nil

	if hasContainerd && hasCRIO {
		// The client's configuration names the one in use.
		value, _ := d.readField("etc/crictl.yaml", "runtime-endpoint")
		if value != "" {
			endpoint := formatEndpoint(strings.Trim(value, `"'`))
			hasContainerd, hasCRIO = endpoint == *containerd.Endpoint, endpoint == *crio.Endpoint
		}
	}

	switch {
	case hasContainerd && !hasCRIO:
		runtime = containerd
		d.setSource("runtime", containerdFile)
	case hasCRIO && !hasContainerd:
		runtime = crio
		d.setSource("runtime", crioFolder)
	default:
		for _, field := range []string{"runtime.endpoint", "runtime.name", "runtime.cgroup_driver", "runtime.version"} {
			d.noteRuntime(field, containerdErr, crioErr)
		}

		return runtime, nil
	}
	d.facts.Runtime = runtime.Runtime

	d.note("runtime.version", "no configuration file contains the version")

	if d.facts.Runtime.CgroupDriver == nil {
		why := "the configuration of " + *d.facts.Runtime.Name + " names neither systemd nor cgroupfs"
		d.note("runtime.cgroup_driver", why)
	}

	return runtime, nil
}

var errNoCRI = errors.New(
	"/etc/containerd/config.toml disables the plugin cri, without which no kubelet can use containerd")

// noteRuntime notes why no runtime, or more than one, was found.
func (d *detection) noteRuntime(field string, containerdErr, crioErr error) {
	switch {
	case containerdErr == nil:
		d.note(field, "both containerd and CRI-O are configured, and /etc/crictl.yaml names neither")
	case errors.Is(containerdErr, errNoCRI):
		d.note(field, errNoCRI.Error())
	case !isAbsent(containerdErr):
		d.noteConfigError(field, containerdErr)
	case !isAbsent(crioErr):
		d.noteConfigError(field, crioErr)
	default:
		d.note(field, "there is neither /etc/containerd/config.toml nor /etc/crio")
	}
}

// noteConfigError adds the error of reading a file of the configuration. An invalid file is not a failure,
// because its runtime cannot read it either.
func (d *detection) noteConfigError(fact string, err error) {
	var invalid *invalidTOMLError
	if errors.As(err, &invalid) {
		d.note(fact, invalid.Error())
		return
	}

	d.noteError(fact, err)
}

const maxImports = 64 // files of one configuration

// readContainerd reads config.toml and the files that it imports; later files override. Versions 1, 2 and 3 of
// the format differ in the name of the plugin. Source: containerd's docs/cri/config.md and
// docs/man/containerd-config.toml.5.md.
func (d *detection) readContainerd() (configuredRuntime, error) {
	config, err := d.readTOML(containerdFile)
	if err != nil {
		return configuredRuntime{}, err
	}

	for _, name := range d.expandImports(config.list("imports")) {
		imported, err := d.readTOML(name)
		if err != nil {
			d.noteConfigError("runtime", err)
			continue
		}

		config.merge(imported)
	}

	if slices.ContainsFunc(config.list("disabled_plugins"), isCRIPlugin) {
		return configuredRuntime{}, errNoCRI
	}

	driver := "cgroupfs" // containerd's default
	networks := usualNetworks

	for _, name := range []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri"} {
		runtime := config.text("runc", "plugins", name, "containerd", "default_runtime_name")
		byRuntime := config.text("", "plugins", name, "containerd", "runtimes", runtime, "options", "SystemdCgroup")
		byPlugin := config.text("", "plugins", name, "systemd_cgroup")

		if byRuntime == "true" || byPlugin == "true" {
			driver = "systemd"
		}
		networks = config.text(networks, "plugins", name, "cni", "conf_dir")
	}

	socket := config.text("/run/containerd/containerd.sock", "grpc", "address")

	return newRuntime("containerd", socket, driver, networks), nil
}

func isCRIPlugin(name string) bool {
	return name == "cri" || strings.HasPrefix(name, "io.containerd.grpc.v1.cri") ||
		strings.HasPrefix(name, "io.containerd.cri.v1.")
}

// expandImports returns the files of imports, which are paths or patterns in a folder, absolute or relative to the
// importing file.
func (d *detection) expandImports(patterns []string) []string {
	var files []string

	for _, pattern := range patterns {
		if !path.IsAbs(pattern) {
			pattern = path.Join("/etc/containerd", pattern)
		}

		pattern = strings.TrimPrefix(path.Clean(pattern), "/")
		if !strings.ContainsAny(pattern, "*?[") {
			files = append(files, pattern)
			continue
		}

		names, _ := d.list(path.Dir(pattern))
		for _, name := range names {
			if isMatch, _ := path.Match(path.Base(pattern), name); isMatch {
				files = append(files, path.Join(path.Dir(pattern), name))
			}
		}
	}

	return files[:min(len(files), maxImports)]
}

// readCRIO reads crio.conf and its drop-ins in order. Source: crio.conf(5), crio.conf.d(5); systemd is the default.
func (d *detection) readCRIO() (configuredRuntime, error) {
	names, err := d.list(crioFolder + "crio.conf.d")
	if err != nil && !isAbsent(err) {
		return configuredRuntime{}, err
	}

	files := []string{crioFolder + "crio.conf"}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			files = append(files, crioFolder+"crio.conf.d/"+name)
		}
	}

	config, isRead := table{}, false

	for _, name := range files[:min(len(files), maxImports)] {
		part, fileErr := d.readTOML(name)
		if fileErr == nil {
			config.merge(part)
			isRead = true

			continue
		}

		err = fileErr
		if !isAbsent(err) {
			d.noteConfigError("runtime", err)
		}
	}

	if !isRead {
		return configuredRuntime{}, err
	}

	socket := config.text("/var/run/crio/crio.sock", "crio", "api", "listen")
	driver := config.text("systemd", "crio", "runtime", "cgroup_manager")
	networks := config.text(usualNetworks, "crio", "network", "network_dir")

	return newRuntime("cri-o", socket, driver, networks), nil
}

func newRuntime(name, socket, driver, networks string) configuredRuntime {
	endpoint := formatEndpoint(socket)

	r := configuredRuntime{Runtime: tape.Runtime{Endpoint: &endpoint, Name: &name}, networks: networks}
	if driver == "systemd" || driver == "cgroupfs" {
		r.CgroupDriver = &driver
	}

	return r
}

func formatEndpoint(socket string) string {
	return "unix://" + strings.TrimPrefix(socket, "unix://")
}
