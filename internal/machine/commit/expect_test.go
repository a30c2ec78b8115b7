package commit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/stages"
)

func TestHealthz(t *testing.T) {
	for _, c := range []struct {
		name   string
		config map[string]any
		flags  []desired.Flag
		want   string
	}{
		{"the kubelet's defaults", map[string]any{}, nil, "http://127.0.0.1:10248/healthz"},
		{
			"configured", map[string]any{"healthzBindAddress": "127.0.0.2", "healthzPort": float64(1234)}, nil,
			"http://127.0.0.2:1234/healthz",
		},
		{
			"a flag wins", map[string]any{"healthzPort": 1234}, []desired.Flag{{Name: "healthz-port", Value: "99"}},
			"http://127.0.0.1:99/healthz",
		},
		{"all addresses", map[string]any{"healthzBindAddress": "0.0.0.0"}, nil, "http://127.0.0.1:10248/healthz"},
		{"all addresses of IPv6", map[string]any{"healthzBindAddress": "::"}, nil, "http://[::1]:10248/healthz"},
		{"turned off", map[string]any{"healthzPort": 0}, nil, ""},
		{"turned off by a flag", map[string]any{}, []desired.Flag{{Name: "healthz-port", Value: "0"}}, ""},
		{"null is the default", map[string]any{"healthzPort": nil}, nil, "http://127.0.0.1:10248/healthz"},
		{"no address", map[string]any{"healthzBindAddress": "localhost@evil.example"}, nil, ""},
		{"not ours to know", nil, nil, ""},
	} {
		if got := HealthzURL(makePlan(t, c.config, c.flags)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// makePlan returns a plan with the configuration that its kubelet works with.
func makePlan(t *testing.T, config map[string]any, flags []desired.Flag) *evaluate.Plan {
	t.Helper()
	n := desired.Node{Config: config, Flags: flags}
	merged, err := stages.MergeDropIns(n, nil, "")
	must(t, err)
	n.Effective = merged.Effective(flags)

	return &evaluate.Plan{Node: n}
}

func TestPods(t *testing.T) {
	for _, c := range []struct {
		config map[string]any
		flags  []desired.Flag
		want   string
	}{
		{nil, []desired.Flag{{Name: "cgroup-driver", Value: "systemd"}}, ""},
		{map[string]any{}, nil, "cgroupfs true unix:///run/containerd/containerd.sock"},
		{
			map[string]any{"cgroupDriver": "systemd", "cgroupsPerQOS": false, "containerRuntimeEndpoint": "unix:///x"},
			nil, "systemd false unix:///x",
		},
		{
			map[string]any{"cgroupDriver": "systemd"},
			[]desired.Flag{{Name: "cgroup-driver", Value: "cgroupfs"}, {Name: "v", Value: "2"}},
			"cgroupfs true unix:///run/containerd/containerd.sock",
		},
	} {
		if got := describePodSettings(makePlan(t, c.config, c.flags)); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.config, c.flags, got, c.want)
		}
	}
}

func TestNodeName(t *testing.T) {
	for _, c := range []struct {
		flags []desired.Flag
		want  string
	}{
		{nil, "worker-1"},
		{[]desired.Flag{{Name: "hostname-override", Value: "Other"}}, "other"},
		{[]desired.Flag{{Name: "cloud-provider", Value: "external"}}, "worker-1"},
		{[]desired.Flag{{Name: "cloud-provider", Value: "aws"}, {Name: "hostname-override", Value: "x"}}, ""},
	} {
		if got := NodeName(&evaluate.Plan{Node: desired.Node{Flags: c.flags}}, " Worker-1\n"); got != c.want {
			t.Errorf("%v: %q, want %q", c.flags, got, c.want)
		}
	}
}

func TestFlags(t *testing.T) {
	argv := []string{"--v=2", "--node-labels=a=b"}
	p := &evaluate.Plan{Node: desired.Node{Files: []desired.File{{Path: "/etc/a"}, {Path: "/etc/default/kubelet", Argv: argv}}}}
	if got := Flags(p); !slices.Equal(got, argv) {
		t.Errorf("got %q, want %q", got, argv)
	}

	if got := Flags(&evaluate.Plan{}); got != nil {
		t.Errorf("without a file: %q", got)
	}
}

func TestWait(t *testing.T) {
	if RetryDelay(0, 0.5) != 0 {
		t.Error("the first run waits")
	}

	var last time.Duration

	for n := 1; n < 40; n++ {
		least, most := RetryDelay(n, 0), RetryDelay(n, 0.999)
		if least < last/2 || most > maxWait || most <= least {
			t.Errorf("%d: %s to %s after %s", n, least, most, last)
		}

		last = most
	}

	if last < maxWait-time.Second {
		t.Errorf("in the end %s", last)
	}
}

// TestNeedsDelay: a run that was stopped is finished at once, unless that has failed; a failure of the site is not
// tried again.
func TestNeedsDelay(t *testing.T) {
	for _, c := range []struct {
		code     fault.Code
		restarts int
		want     bool
	}{
		{"", 5, false},
		{fault.ClusterUnreachable, 1, true},
		{fault.Syntax, 1, false},
		{fault.Interrupted, 2, false},
		{fault.Interrupted, 3, true},
	} {
		if got := NeedsDelay(c.code, c.restarts); got != c.want {
			t.Errorf("%q after %d restarts: got %v, want %v", c.code, c.restarts, got, c.want)
		}
	}
}

// The observed state of the plan must be equal to that of package generation, or every commit would be planned again.
func TestSeen(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for _, c := range []struct {
		old    tape.TargetAns
		secret bool
		want   *generation.FileState
	}{
		{tape.TargetAns{}, false, &generation.FileState{}},
		{tape.TargetAns{}, true, &generation.FileState{}},
		{
			tape.TargetAns{Exists: true, Dir: true, Mode: 0o755, UID: 1}, false,
			&generation.FileState{Kind: generation.Dir, Mode: 0o755, UID: 1},
		},
		{
			tape.TargetAns{Exists: true, SHA256: hash, Mode: 0o600, GID: 2}, false,
			&generation.FileState{Kind: generation.File, SHA256: hash, Mode: 0o600, GID: 2},
		},
		{tape.TargetAns{Exists: true, Same: true}, true, nil},
	} {
		p := &evaluate.Plan{Changed: evaluate.Changed{Changes: []evaluate.FileChange{{File: desired.File{Path: "/x"}, Old: c.old}}}}

		got := observedState(ProposalInput{Plan: p, Node: anyNode{}}, "/x", c.secret)
		if (got == nil) != (c.want == nil) || got != nil && !got.Equal(*c.want) {
			t.Errorf("%+v: %+v, want %+v", c.old, got, c.want)
		}
	}

	if observedState(ProposalInput{Plan: &evaluate.Plan{}, Node: anyNode{}}, "/x", false) != nil {
		t.Error("a target that was not looked at was seen")
	}
}

// The running kubelet has relative paths of its file as absolute ones.
func TestPlannedPathsAreThoseOfTheKubelet(t *testing.T) {
	config := map[string]any{"staticPodPath": "manifests", "maxPods": 20}
	text, err := secret.TextOf(cty.StringVal("{}"))
	must(t, err)
	version := "1.37.1"
	p := &evaluate.Plan{Node: desired.Node{
		Config:    config,
		Effective: config,
		Files:     []desired.File{{Path: "/etc/kubelet/config.yaml", Kind: desired.Regular, Purpose: "kubelet-config", Text: text}},
	}}
	p.Kubelet.Version = &version

	for name, got := range map[string]*kubelet.Configz{
		"log":     buildLoggedConfig(p),
		"configz": buildConfigz(p, "kubelet-configz"),
	} {
		if got == nil || got.Planned["staticPodPath"] != "/etc/kubelet/manifests" {
			t.Errorf("%s: got %+v, want staticPodPath /etc/kubelet/manifests", name, got)
		}
	}
	if config["staticPodPath"] != "manifests" {
		t.Errorf("plan: got staticPodPath %v afterwards, want it unchanged", config["staticPodPath"])
	}
}
