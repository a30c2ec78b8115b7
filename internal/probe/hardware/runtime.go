package hardware

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/world"
)

// RuntimeOf returns what Detect finds of the container runtime that a machine is configured for, and nothing else. Root
// is a folder; "" is this machine. A field that is not known is nil, and so is each field where the configuration could
// not be read in time.
func RuntimeOf(ctx context.Context, root string) world.Runtime {
	d := &detection{
		Tree: hostTree{root}, ctx: ctx, patience: usualPatience, facts: empty(), evidence: map[string]string{},
	}

	runtime, err := within(d, "reading the configuration of the container runtime", func() (world.Runtime, error) {
		err := d.readRuntime()
		return d.facts.Runtime, err
	})

	if err != nil || ctx.Err() != nil {
		return world.Runtime{}
	}

	return runtime
}

// readRuntime reads what the container runtime is configured to be; at this moment of a boot it may not run yet.
func (d *detection) readRuntime() error {
	containerd, containerdErr := d.containerd()
	crio, crioErr := d.crio()
	hasContainerd, hasCRIO := containerdErr == nil, crioErr == nil
	if hasContainerd && hasCRIO {
		// Both are there: the client's configuration names the one that is meant.
		data, _ := d.ReadFile("etc/crictl.yaml", sysfsLimit)
		for key, value := range fields(string(data)) {
			if key == "runtime-endpoint" {
				socket := strings.TrimPrefix(strings.Trim(value, `"'`), "unix://")
				hasContainerd = "unix://"+socket == *containerd.Endpoint
				hasCRIO = "unix://"+socket == *crio.Endpoint
			}
		}
	}
	switch {
	case hasContainerd && !hasCRIO:
		d.facts.Runtime = containerd
	case hasCRIO && !hasContainerd:
		d.facts.Runtime = crio
	default:
		for _, field := range []string{"runtime.endpoint", "runtime.name", "runtime.cgroup_driver", "runtime.version"} {
			switch {
			case containerdErr == nil:
				d.note(field, "both containerd and CRI-O are configured, and /etc/crictl.yaml names neither")
			case errors.Is(containerdErr, errNoCRI):
				d.note(field, errNoCRI.Error())
			case !absent(containerdErr):
				d.unread(field, containerdErr)
			case !absent(crioErr):
				d.unread(field, crioErr)
			default:
				d.note(field, "there is neither /etc/containerd/config.toml nor /etc/crio")
			}
		}
		return nil
	}
	if *d.facts.Runtime.Name == "containerd" {
		d.saw("runtime", "etc/containerd/config.toml")
	} else {
		d.saw("runtime", "etc/crio/")
	}
	d.note("runtime.version", "no configuration file says the version")
	if d.facts.Runtime.CgroupDriver == nil {
		d.note("runtime.cgroup_driver", "the configuration of "+*d.facts.Runtime.Name+" names neither systemd nor cgroupfs")
	}
	return nil
}

var errNoCRI = errors.New("/etc/containerd/config.toml disables the plugin cri, without which no kubelet can use containerd")

// unread notes why a file of the configuration was not read. One that is not valid is how the machine is: its runtime does
// not read it either.
func (d *detection) unread(fact string, err error) {
	if invalid := (*invalidTOMLError)(nil); errors.As(err, &invalid) {
		d.note(fact, invalid.Error())
		return
	}
	d.failed(fact, err)
}

// maxImports is how many files of a configuration are read.
const maxImports = 64

// containerd reads config.toml and what it imports; later files override. Versions 1, 2 and 3 of the format differ in the
// name of the plugin. Source: containerd's docs/cri/config.md and docs/man/containerd-config.toml.5.md.
func (d *detection) containerd() (world.Runtime, error) {
	config, err := d.readTOML("etc/containerd/config.toml")
	if err != nil {
		return world.Runtime{}, err
	}
	for _, name := range d.imports(config.list("imports")) {
		imported, err := d.readTOML(name)
		if err != nil {
			d.unread("runtime", err)
			continue
		}
		config.merge(imported)
	}
	for _, plugin := range config.list("disabled_plugins") {
		if plugin == "cri" || strings.HasPrefix(plugin, "io.containerd.grpc.v1.cri") || strings.HasPrefix(plugin, "io.containerd.cri.v1.") {
			return world.Runtime{}, errNoCRI
		}
	}
	socket := config.text("/run/containerd/containerd.sock", "grpc", "address")
	driver := "cgroupfs" // containerd's default
	for _, plugin := range []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri"} {
		runtime := config.text("runc", "plugins", plugin, "containerd", "default_runtime_name")
		if config.text("", "plugins", plugin, "containerd", "runtimes", runtime, "options", "SystemdCgroup") == "true" ||
			config.text("", "plugins", plugin, "systemd_cgroup") == "true" {
			driver = "systemd"
		}
	}
	return runtime("containerd", socket, driver), nil
}

// imports are paths or patterns in a folder, absolute or relative to the importing file.
func (d *detection) imports(patterns []string) []string {
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
		names, _ := d.names(path.Dir(pattern))
		for _, name := range names {
			if ok, err := path.Match(path.Base(pattern), name); err == nil && ok {
				files = append(files, path.Join(path.Dir(pattern), name))
			}
		}
	}
	return files[:min(len(files), maxImports)]
}

// crio reads crio.conf and its drop-ins in order. Source: crio.conf(5), crio.conf.d(5); systemd is the default.
func (d *detection) crio() (world.Runtime, error) {
	config := table{}
	names, err := d.names("etc/crio/crio.conf.d")
	if err != nil && !absent(err) {
		return world.Runtime{}, err
	}
	files := []string{"etc/crio/crio.conf"}
	for _, name := range names {
		if !strings.HasPrefix(name, ".") {
			files = append(files, "etc/crio/crio.conf.d/"+name)
		}
	}
	read := 0
	for _, name := range files[:min(len(files), maxImports)] {
		part, fileErr := d.readTOML(name)
		if fileErr != nil {
			if !absent(fileErr) {
				d.unread("runtime", fileErr)
			}
			err = fileErr
			continue
		}
		config.merge(part)
		read++
	}
	if read == 0 {
		return world.Runtime{}, err
	}
	socket := config.text("/var/run/crio/crio.sock", "crio", "api", "listen")
	return runtime("cri-o", socket, config.text("systemd", "crio", "runtime", "cgroup_manager")), nil
}

func runtime(name, socket, driver string) world.Runtime {
	endpoint := "unix://" + strings.TrimPrefix(socket, "unix://")
	r := world.Runtime{Endpoint: &endpoint, Name: &name}
	if slices.Contains([]string{"systemd", "cgroupfs"}, driver) {
		r.CgroupDriver = &driver
	}
	return r
}
