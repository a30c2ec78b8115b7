package hostfiles

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// kubeletLogindConf is the drop-in that a kubelet writes to /etc/systemd/logind.conf.d where logind's delay is too
// short. Source: pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go.
const kubeletLogindConf = "99-kubelet.conf"

// mergeLogindDropIns returns the drop-ins of a node with those that the site writes, in the order of their names. Of
// two with one name logind reads that in /etc, and a planned file elsewhere replaces only itself.
func mergeLogindDropIns(found []tape.LogindDropIn, planned []desired.File) []tape.LogindDropIn {
	byName := map[string]tape.LogindDropIn{}
	for _, d := range found {
		byName[path.Base(d.Path)] = d
	}

	for _, f := range planned {
		name := path.Base(f.Path)
		before, exists := byName[name]
		isDropIn := strings.HasSuffix(path.Dir(f.Path), "/systemd/logind.conf.d") && path.Ext(name) == ".conf"
		isRead := !exists || before.Path == f.Path || strings.HasPrefix(f.Path, "/etc/")
		if !isDropIn || !isRead {
			continue
		}
		delete(byName, name)
		value, isSet := unitfile.Last(f.Text.Template(), "Login", "InhibitDelayMaxSec")
		if isSet && f.Kind == desired.Regular {
			byName[name] = tape.LogindDropIn{Path: f.Path, Value: value}
		}
	}

	return slices.SortedFunc(maps.Values(byName), func(a, b tape.LogindDropIn) int {
		return cmp.Compare(path.Base(a.Path), path.Base(b.Path))
	})
}

// FindLogind returns the settings that decide how long a shutdown can be delayed: the answer of the node, with the last
// drop-in that logind reads after the kubelet's own.
func FindLogind(a tape.LogindAns, planned []desired.File) rules.Logind {
	l := rules.Logind{
		Missing:  a.Missing,
		Delay:    time.Duration(a.DelayMicros) * time.Microsecond,
		ReadOnly: a.ReadOnly,
	}
	for _, d := range mergeLogindDropIns(a.DropIns, planned) {
		value, isValid := unitfile.ParseTimespan(d.Value)
		if isValid && path.Base(d.Path) > kubeletLogindConf { // logind ignores an invalid value
			l.Later, l.LaterDelay = d.Path, value
		}
	}

	return l
}
