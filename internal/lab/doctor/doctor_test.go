package doctor

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/doctor/image"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

func p[T any](v T) *T { return &v }

// waiting is a unit that waits at the gate.
func waiting() unitfile.Definition {
	u := unitfile.Definition{Name: "kubelet.service", Load: "loaded", File: "enabled"}
	u.EnvironmentFiles = []unitfile.EnvironmentFile{{Path: unitfile.Gate}}

	return u
}

// well is a node that lacks nothing.
func well() Observations {
	return Observations{
		Root: true, Systemd: true, Version: "257.7-1",
		Plan: &evaluate.Plan{
			Site:    &lang.Site{},
			Trace:   evaluate.Trace{Facts: &tape.Facts{}},
			Changed: evaluate.Changed{Changes: []evaluate.FileChange{}},
			Installed: evaluate.Installed{
				Kubelet: tape.KubeletAns{Joined: true, JoinedWhy: "so", Cgroup: 2, Swap: p(false),
					Runtime: &tape.RuntimeAns{Endpoint: "unix:///run/x.sock", Version: "2.2.0", Driver: "systemd"}},
			},
		},
		Kubelet: image.Kubelet{Path: "/usr/bin/kubelet", Version: "v1.36.3"},
		Unit:    NeededUnit{Unit: unitfile.Unit{Definition: waiting()}},
		Gate:    unitfile.Gate,
		Secrets: []Secret{{Name: "token", Needed: true}},
		Kept:    Kept{Current: 3},
		Kernels: map[string]map[string]bool{"6.12.1": kernelWith(wellKernel)},
		Files:   check.List{{Name: "disk", Needs: check.Root, Run: func(*check.Recorder) {}}},
	}
}

func TestWell(t *testing.T) {
	found := Examine(well())
	if !check.Fit(found) {
		t.Error("got an unfit node, want a fit one")
	}
	var checks []string
	for _, f := range found {
		if f.State != check.OK {
			t.Errorf("%+v", f)
		}
		checks = append(checks, f.Check)
	}
	for _, c := range new(Observations).checks().Names(check.Running) {
		if c != "detectors" && !slices.Contains(checks, c) {
			t.Errorf("got no finding of %s, want one", c)
		}
	}
}

// TestSystemdVersions reports what a version lacks, in the form that each systemd gives its version.
func TestSystemdVersions(t *testing.T) {
	for version, want := range map[string]string{
		"": "", "no number": "", "247.3-7+deb11u5": "older|250 251 251 252 252 254 256", "249.11-0ubuntu3.12": "|250 251 251 252 252 254 256",
		"v252": "|254 256", `"255.4-1ubuntu8"`: "|256", "257.7-1": "|",
	} {
		in := well()
		in.Version = version
		var r []string
		got := ""
		for _, f := range Examine(in) {
			if f.Check != "systemd" {
				continue
			}
			if got == "" {
				got = "|"
			}
			if f.State == check.Warning {
				got = "older|"
			}
			if i := strings.LastIndex(f.Summary, " ("); i > 0 {
				r = append(r, f.Summary[i+2:i+5])
			}
		}
		if got += strings.Join(r, " "); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
}

// checkFile returns the checks of a run that writes a file.
func checkFile(path string) check.List {
	store, err := generation.OpenReadOnly(generation.StoreConfig{Dir: "/none/prelet"})
	if err != nil {
		panic(err)
	}

	e := generation.Entry{Path: path, Action: generation.ActionCreate}
	e.New.Kind = generation.File

	return store.Checks([]generation.Entry{e})
}

// Each row makes one part unhealthy, and names the expected finding.
func TestIll(t *testing.T) {
	broken := errors.New("because")
	at := hcl.Range{Filename: "site.hcl", Start: hcl.Pos{Line: 3, Column: 5}}
	for _, c := range []struct {
		name  string
		spoil func(*Observations)
		check string
		state check.Level
		says  string
	}{
		{"no kubelet", func(i *Observations) { i.Kubelet = image.Kubelet{} }, "kubelet", check.Problem, "no kubelet was found"},
		{"no answer about the kubelet", func(i *Observations) {
			i.Kubelet = image.Kubelet{Unread: &nodefile.NoAnswerError{}}
		}, "kubelet", check.Unread, "is not known"},
		{"a kubelet that says nothing", func(i *Observations) { i.Kubelet.Version = "" }, "kubelet", check.Problem, "does not report its version"},
		{"no systemd", func(i *Observations) { i.Systemd = false }, "unit", check.Unread, "cannot be checked"},
		{"no D-Bus", func(i *Observations) { i.Unit.Err = broken }, "unit", check.Unread, "from systemd"},
		{"masked", func(i *Observations) { i.Unit.Load = "masked" }, "unit", check.Problem, "is masked"},
		{"masked for this boot", func(i *Observations) { i.Unit.File = "masked-runtime" }, "unit", check.Problem, "is masked"},
		{"no unit", func(i *Observations) { i.Unit.Load = "not-found" }, "unit", check.Problem, "cannot find"},
		{"no gate", func(i *Observations) { i.Unit.EnvironmentFiles = nil }, "unit", check.Problem, "without waiting for prelet"},
		{"a unit that nobody may start", func(i *Observations) { i.Unit.NoStart = true }, "unit", check.Problem, "systemd refuses to start"},
		{"disabled", func(i *Observations) { i.Unit.File = "disabled" }, "unit", check.Warning, "is not enabled"},
		{"no runtime", func(i *Observations) { i.Plan.Kubelet.Runtime = nil }, "runtime", check.Warning, "no container runtime"},
		{"a runtime that is away", func(i *Observations) { i.Plan.Kubelet.Runtime.Version = "" }, "runtime", check.Warning, "does not answer"},
		{"a runtime that this user may not ask", func(i *Observations) { i.Root, i.Plan.Kubelet.Runtime.Version = false, "" }, "runtime", check.Unread, "whether the container runtime"},
		{"no plan", func(i *Observations) { i.Plan = nil }, "runtime", check.Unread, "not looked for"},
		{"a credential", func(i *Observations) { i.Secrets[0].Err = broken }, "credentials", check.Problem, "token cannot be read"},
		{"a credential that this user may not see", func(i *Observations) { i.Secrets[0].Err, i.Root = broken, false }, "credentials", check.Unread, "token"},
		{"a folder that is a file", func(i *Observations) { i.Files = checkFile("/dev/null/x") }, "disk", check.Problem, "not a directory"},
		{"a folder that is a link", func(i *Observations) { i.Files = checkFile("/proc/self/x") }, "disk", check.Problem, "/proc/self"},
		{"not root", func(i *Observations) { i.Root = false }, "disk", check.Unread, "whether the files"},
		{"a state folder that cannot be read", func(i *Observations) { i.Files = nil }, "disk", check.Unread, "whether the files"},
		{"a plan that failed", func(i *Observations) { i.Plan.Changes = nil }, "disk", check.Unread, "whether the files"},
		{"an expired identity", func(i *Observations) { i.Plan.Kubelet.Joined, i.Plan.Kubelet.Identity = false, &tape.IdentityAns{} }, "identity", check.Warning, "has not joined"},
		{"a plan that failed, and a damaged certificate", func(i *Observations) {
			i.Plan.Changes, i.Plan.Kubelet.Joined = nil, true
			i.Plan.Kubelet.DamagedOwn = &tape.DamagedAns{Why: "it is empty", Remove: "rm it"}
		}, "identity", check.Warning, "serving certificate"},
		{"a generation of a newer prelet", func(i *Observations) { i.Kept.Newer = broken }, "state", check.Warning, "a newer prelet"},
		{"a journal that cannot be read", func(i *Observations) { i.Kept.Err = broken }, "state", check.Problem, "cannot be read"},
		{"a mistake in the site", func(i *Observations) {
			i.Loaded = hcl.Diagnostics{origin.Error(fault.Reference, at, "There is no x", "d")}
		}, "site", check.Problem, "There is no x"},
		{"no site", func(i *Observations) {
			i.Loaded = hcl.Diagnostics{origin.Error(fault.NoSite, hcl.Range{}, "No site", "d")}
		}, "site", check.Problem, "No site"},
		{"a rule of the kubelet", func(i *Observations) {
			i.Plan.Diagnostics = hcl.Diagnostics{origin.Warning(fault.KubeletGate, at, "A gate", "d")}
		}, "kubelet", check.Warning, "A gate"},
		{"swap", func(i *Observations) {
			i.Plan.Diagnostics = hcl.Diagnostics{origin.Error(fault.KubeletMachine, at, "Swap", "d")}
		}, "machine", check.Problem, "Swap"},
		{"a port in use", func(i *Observations) {
			i.Plan.Diagnostics = hcl.Diagnostics{origin.Warning(fault.KubeletMachine, at, "Port 10250", "d")}
		}, "machine", check.Warning, "Port 10250"},
		{"the cluster", func(i *Observations) {
			i.Plan.Diagnostics = hcl.Diagnostics{origin.Error(fault.ClusterUntrusted, at, "Wrong CA", "d")}
		}, "cluster", check.Problem, "Wrong CA"},
		{"a detector", func(i *Observations) {
			i.Plan.Diagnostics = hcl.Diagnostics{origin.Warning(fault.DetectorDegraded, at, "No lock", "d")}
		}, "detectors", check.Warning, "No lock"},
		{"what this user may not read", func(i *Observations) { i.Plan.Diagnostics = hcl.Diagnostics{origin.MayNotRead(at, "x", "y")} }, "site", check.Unread, "may not look"},
		{"the same in other words", func(i *Observations) {
			d := origin.MayNotRead(at, "x", "y")
			d.Summary = "Denied"
			i.Plan.Diagnostics = hcl.Diagnostics{d}
		}, "site", check.Unread, "Denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := well()
			c.spoil(&in)
			found := Examine(in)
			if !slices.ContainsFunc(found, func(f check.Finding) bool {
				return f.Check == c.check && f.State == c.state && strings.Contains(f.Summary, c.says)
			}) {
				t.Fatalf("want %s %s with %q, got %+v", c.check, c.state, c.says, found)
			}
			if check.Fit(found) != (c.state != check.Problem) {
				t.Errorf("fit: got %t, want %t", check.Fit(found), !check.Fit(found))
			}
			for _, f := range found {
				if f.Check == c.check && f.State == check.OK {
					t.Errorf("got %+v, want no OK next to a worse finding", f)
				}
				if f.State == check.Problem && f.Do == "" && f.Why == "" {
					t.Errorf("got %+v, want a problem with a reason and a next step", f)
				}
			}
		})
	}
}

// A node that has joined does not need the token, and notes are not findings.
func TestLeftOut(t *testing.T) {
	in := well()
	in.Secrets = []Secret{{Name: "token", Err: errors.New("x")}}
	in.Plan.Diagnostics = hcl.Diagnostics{
		origin.Note(fault.NullFact, hcl.Range{}, "a note", "d"),
	}
	for _, f := range Examine(in) {
		if f.State != check.OK {
			t.Errorf("%+v", f)
		}
	}
}

// The worst of a check comes first, and the checks in their order.
func TestOrder(t *testing.T) {
	in := well()
	in.Kubelet.Version = ""
	in.Plan.Kubelet.Runtime = nil
	in.Unit.Load = "masked"
	in.Kept.Newer = errors.New("x")

	worst := []check.Level{check.Problem, check.Warning, check.Unread, check.OK}
	names := in.checks().Names(check.Running)
	last, before := -1, check.Problem
	for _, f := range Examine(in) {
		at := slices.Index(names, f.Check)
		if at < last {
			t.Errorf("got %s after check %d, want the order of %q", f.Check, last, names)
		}
		if at == last && slices.Index(worst, f.State) < slices.Index(worst, before) {
			t.Errorf("got %+v after a finding that is %s, want the worst of a check first", f, before)
		}
		last, before = at, f.State
	}
}

// TestRuntimeWithoutPlan: a plan with errors has not looked for the runtime, so it does not lack one.
func TestRuntimeWithoutPlan(t *testing.T) {
	in := well()
	in.Plan.Kubelet.Runtime = nil
	in.Plan.Diagnostics = hcl.Diagnostics{origin.Error(fault.Evaluation, hcl.Range{}, "x", "y")}
	for _, f := range Examine(in) {
		if f.Check == "runtime" && f.State != check.Unread {
			t.Errorf("runtime: got %+v, want %s", f, check.Unread)
		}
	}
}
