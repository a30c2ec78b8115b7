package probe

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// TestDescribeUnit: what systemd refuses to do with a unit by hand.
func TestDescribeUnit(t *testing.T) {
	for name, c := range map[string]struct {
		unit systemd.Unit
		want []string
	}{
		"neither":              {systemd.Unit{Definition: unitfile.Definition{Load: "loaded"}}, nil},
		"a stop, as auditd":    {systemd.Unit{Definition: unitfile.Definition{Load: "loaded"}, Relations: unitfile.Relations{NoStop: true, CanReload: true}}, []string{"restart"}},
		"a start, no reload":   {systemd.Unit{Definition: unitfile.Definition{Load: "loaded"}, Relations: unitfile.Relations{NoStart: true}}, []string{"restart", "reload"}},
		"there is no such one": {systemd.Unit{Definition: unitfile.Definition{Load: "not-found"}, Relations: unitfile.Relations{NoStart: true, NoStop: true}}, nil},
	} {
		if got := describeUnit(c.unit).Refuses; !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestUnitOfImage checks that whether a unit exists below a root is read from its files, if the root has any units.
func TestUnitOfImage(t *testing.T) {
	root := t.TempDir()
	l := newLive(t, Sources{Root: root})
	ask := func(name string) string {
		a, _, err := tape.Unit.Ask(t.Context(), tape.Adapters{tape.Unit.Adapt(l.answerUnit)}, tape.UnitReq{Name: name})
		if err != nil {
			return "unknown"
		}
		return a.Load
	}
	if got := ask("chrony.service"); got != "unknown" {
		t.Errorf("a root without units: got %q, want unknown", got)
	}

	place(t, root, "/usr/lib/systemd/system/chrony.service", "[Service]\nExecStart=/bin/true\n")
	place(t, root, "/usr/lib/systemd/system/masked.service", "[Service]\nExecStart=/bin/true\n")
	place(t, root, "/etc/systemd/system/masked.service", "")
	for name, want := range map[string]string{
		"chrony.service": "loaded", "chronyd.service": "not-found", "masked.service": "masked",
	} {
		if got := ask(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestStartTellsNoSecret checks that of a unit's variables only those are reported that become words of its command
// line.
func TestStartTellsNoSecret(t *testing.T) {
	u := unitfile.Definition{
		Name: "kubelet.service",
		Service: unitfile.Service{
			Folder: "/var",
			Command: strings.Fields(`
				/usr/bin/kubelet $KUBELET_CONFIG_ARGS ${NAME} --max-pods=${PODS} --manifest-url-header=${HEADER}
				$KUBELET_EXTRA_ARGS $EMPTY $GONE $OTHER
			`),
			Environment: strings.Fields(`
				KUBELET_CONFIG_ARGS=--config=/x NAME=--v=2 PODS=20 HEADER=Authorization:secret
				HTTPS_PROXY=http://me:secret@proxy EMPTY=x EMPTY= GONE=--v=3 OTHER=--v=4
			`),
			Unset: []string{"GONE", "OTHER=--v=4", "PODS=21", "HEADER=Authorization:other", "HTTPS_PROXY=http://me:other@proxy"},
		},
		Names: []string{"kubelet.service", "node.service"},
	}
	u.EnvironmentFiles = append(u.EnvironmentFiles, unitfile.EnvironmentFile{Path: "/etc/default/kubelet", Optional: true})

	want := &tape.StartAns{
		Words: u.Command, Folder: "/var", Read: map[string]map[string]*string{"/etc/default/kubelet": {}}, Files: []string{"/etc/default/kubelet"},
		Vars:  map[string]string{"KUBELET_CONFIG_ARGS": "--config=/x", "NAME": "--v=2", "PODS": "20"},
		Sets:  []string{"KUBELET_CONFIG_ARGS", "NAME", "PODS", "HEADER", "HTTPS_PROXY"},
		Unset: []string{"GONE", "OTHER=--v=4", "PODS=21"}, Aliases: []string{"node.service"},
	}
	l := newLive(t, Sources{Root: t.TempDir()})
	if got := l.describeStart(u); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestStartReadsEnvironmentFiles checks that of the environment files of a unit those variables are known that become
// words of its command line, but none that may be a secret.
func TestStartReadsEnvironmentFiles(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/etc/eks/kubelet/environment", "NODEADM_KUBELET_ARGS='--v=2 --max-pods=29'\nOTHER=--v=9\n")
	place(t, root, "/etc/kubelet.d/a.env", "PASSWORD=abc\nURL=https://me:hunter22hunter22@proxy\nPODS=30\n")
	place(t, root, "/usr/lib/systemd/system/kubelet.service", "[Service]\nEnvironmentFile=-/etc/eks/kubelet/environment\n"+
		"EnvironmentFile=/etc/kubelet.d/*.env\nEnvironmentFile=-/etc/nosuch\n"+
		"ExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS --manifest-url-header ${PASSWORD} --a=${URL} --max-pods=${PODS}\n")
	l := newLive(t, Sources{Root: root, Unit: "kubelet.service"})
	a, _, err := tape.Unit.Ask(t.Context(), tape.Adapters{tape.Unit.Adapt(l.answerUnit)},
		tape.UnitReq{Name: "kubelet.service", Start: true})
	if err != nil || a.Start == nil {
		t.Fatalf("got %+v, %v; want how the unit starts", a, err)
	}

	want := map[string]map[string]*string{
		"/etc/eks/kubelet/environment": {"NODEADM_KUBELET_ARGS": new("--v=2 --max-pods=29")},
		"/etc/kubelet.d/*.env":         {},
		"/etc/kubelet.d/a.env":         {"PASSWORD": nil, "URL": nil, "PODS": new("30")},
		"/etc/nosuch":                  {},
	}
	if !reflect.DeepEqual(a.Start.Read, want) {
		t.Errorf("got %+v; want %+v", a.Start.Read, want)
	}
}
