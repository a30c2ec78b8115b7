package hostfiles

import (
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// Reader is the reader of a file among the kubelet, its unit and its runtime.
type Reader int

// The readers. A file with two has the last of them.
const (
	NoReader  Reader = iota // another program, or none
	ByRuntime               // the container runtime, or its unit
	Later                   // the kubelet while it runs, as static pods, or perhaps
	AtStart                 // the kubelet or its unit, at each start
)

// FindReader returns the reader of a file. It is the only place where that is decided.
//
// At its start the kubelet reads the files of its unit, what that names, the files below its folders, and the files
// that a flag or a field of its configuration names, also by a folder above them.
func FindReader(n desired.Node, file string) Reader {
	covers := func(place string) bool { return Covers(place, file) }
	isOf := func(units []string) bool { return len(unitfile.Select(units, []string{file})) > 0 }
	staticPods, _ := n.Config["staticPodPath"].(string)
	if f, ok := desired.FindFlag(n.Flags, "pod-manifest-path"); ok {
		staticPods = f.Value
	}
	isNeededUnit := func(unit string) bool { return isOf([]string{unit}) }
	isMatch := func(pattern string) bool {
		isMatch, _ := path.Match(pattern, file)
		return isMatch
	}

	switch {
	case isOf(listUnitNames(n)), slices.ContainsFunc(kubeletPlaces(), covers):
		return AtStart
	case covers(staticPods):
		return Later
	case slices.ContainsFunc(listNamed(n), covers), slices.ContainsFunc(n.UnitFiles, isMatch):
		return AtStart
	case path.Dir(file) == featureFolder:
		return NoReader
	case slices.ContainsFunc(doubtfulPlaces(), covers), slices.ContainsFunc(listNamedByUnit(n), covers):
		return Later
	case slices.ContainsFunc(runtimePlaces(), covers), slices.ContainsFunc(listNeededUnits(n), isNeededUnit):
		return ByRuntime
	}

	return NoReader
}

// IsReadByKubelet reports whether the kubelet reads a file when it starts.
func IsReadByKubelet(n desired.Node, file string) bool { return FindReader(n, file) == AtStart }

// Decides reports whether a managed file decides whether the kubelet runs: the gate and each verdict depend on these
// files only. They are those that the kubelet, its unit or its runtime reads, or may read, and those for
// which the site restarts one of the three.
func Decides(n desired.Node, f desired.File) bool {
	if FindReader(n, f.Path) != NoReader {
		return true
	}
	units, isKubelet := FindNotified(n, f, nil)
	needed := listNeededUnits(n)

	return isKubelet || slices.ContainsFunc(units, func(u UnitChange) bool {
		return slices.Contains(needed, u.Unit.Unit)
	})
}

// kubeletPlaces are the kubelet's own files and folders.
func kubeletPlaces() []string {
	return []string{
		"/var/lib/kubelet", "/etc/kubernetes/kubelet.conf.d", "/etc/default/kubelet", "/etc/sysconfig/kubelet",
	}
}

// doubtfulPlaces are folders of whose files the kubelet may read some: certificates and kubeconfigs, and its plugins.
func doubtfulPlaces() []string { return []string{"/etc/kubernetes", "/usr/libexec/kubernetes"} }

// runtimePlaces are the files and folders of container runtimes, and of the network and devices of their containers.
func runtimePlaces() []string {
	places := []string{
		"/etc/containerd", "/etc/crio", "/etc/containers", "/etc/docker", "/etc/cni", "/opt/cni", "/etc/cdi",
		"/var/run/cdi", "/run/cdi", "/etc/nvidia-container-runtime", "/etc/crictl.yaml",
	}
	for _, unit := range runtimeUnits() {
		name := strings.TrimSuffix(unit, path.Ext(unit))
		places = append(places, "/etc/default/"+name, "/etc/sysconfig/"+name)
	}

	return places
}

func runtimeUnits() []string {
	return []string{
		"containerd.service", "crio.service", "cri-o.service", "docker.service", "docker.socket", "cri-docker.service",
		"cri-docker.socket",
	}
}

// listNeededUnits returns the units that the kubelet needs: of runtimes, and those that planned files of its unit name.
func listNeededUnits(n desired.Node) []string {
	units := runtimeUnits()
	for _, f := range ListUnitFiles(n) {
		for _, s := range unitfile.Parse(f.Text.Template()) {
			switch s.Section + "/" + s.Name {
			case "Unit/Requires", "Unit/Requisite", "Unit/BindsTo", "Unit/Wants", "Unit/After":
				units = append(units, strings.Fields(s.Value)...)
			}
		}
	}

	return units
}

// listNamed returns the files and folders that flags and fields of the kubelet's configuration name.
func listNamed(n desired.Node) (places []string) {
	config, _ := n.FindPurpose("kubelet-config")
	file := config.Path
	if file == "" {
		file = n.Inherited.ConfigFile
	}
	for _, text := range kubelet.ListTexts(n.Config) {
		if file != "" && text != "" && !path.IsAbs(text) { // relative to its file
			text = path.Join(path.Dir(file), text)
		}
		places = append(places, text)
	}
	for _, f := range n.Flags {
		places = append(places, f.Value)
	}

	return append(append(places, n.UnitFiles...), n.Inherited.ConfigFile)
}

// listNamedByUnit returns the files and folders that planned files of the kubelet's unit name, such as programs that
// run before it.
func listNamedByUnit(n desired.Node) (places []string) {
	isSeparator := func(r rune) bool { return strings.ContainsRune(" \t\n\"'=:,;-+!@|", r) }
	for _, f := range ListUnitFiles(n) {
		for _, s := range unitfile.Parse(f.Text.Template()) {
			if isRead := slices.ContainsFunc(readSettings(), func(prefix string) bool {
				return strings.HasPrefix(s.Name, prefix)
			}); isRead {
				places = append(places, strings.FieldsFunc(s.Value, isSeparator)...)
			}
		}
	}

	return places
}

// readSettings are the beginnings of the settings of a unit that name files which it reads, executes or waits for.
func readSettings() []string {
	return []string{
		"Exec", "Environment", "LoadCredential", "SetCredential", "Condition", "Assert", "RequiresMountsFor",
	}
}

// Covers reports whether a path is a file, or a folder above it.
func Covers(place, file string) bool {
	place = strings.TrimSuffix(place, "/")

	return strings.HasPrefix(place, "/") && (place == file || strings.HasPrefix(file, place+"/"))
}
