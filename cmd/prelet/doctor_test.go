package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app/doctor"
)

// findings is what `doctor -o json` says.
func (m *machine) findings() (ended, []doctor.Finding) {
	m.t.Helper()
	e := m.doctor("-o", "json")
	var out struct {
		Fit      bool
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(e.out), &out); err != nil {
		m.t.Fatalf("%v: %s", err, e.out)
	}
	if out.Fit != (e.exit == 0) || e.exit != 0 && e.exit != 3 {
		m.t.Errorf("fit %t, exit %d", out.Fit, e.exit)
	}
	return e, out.Findings
}

// doctor runs it where systemd is there.
func (m *machine) doctor(args ...string) ended {
	m.apply = func() { m.t.Error("prelet-apply.service was started") }
	defer func() { m.apply = nil }()
	return m.as("", append([]string{"doctor"}, args...)...)
}

func finding(fs []doctor.Finding, check string, s doctor.State) string {
	for _, f := range fs {
		if f.Check == check && f.State == s {
			return f.Summary + " " + f.Why
		}
	}
	return ""
}

// TestDoctorOfNewerKubelet: with a kubelet that the tables do not know, doctor and plan have the same severity.
func TestDoctorOfNewerKubelet(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.99.0", "v2.0.0", "v0.0.0-master"} {
		m := newMachine(t)
		m.answered(version)
		const stage = `stage "write" "kubelet" {`
		m.put("/etc/prelet/site.hcl", strings.Replace(m.site, stage, stage+`
  kubelet_config {
    patch = { maxPod = 3 }
  }
`, 1))
		e := m.as("", "plan", "--root", m.root)
		if e.exit != 0 || !strings.Contains(strings.Join(strings.Fields(e.errors), " "), "may accept what those refuse: maxPod") {
			t.Errorf("%s: plan: got exit %d: %s, want 0 and a warning of maxPod", version, e.exit, e.errors)
		}
		e, fs := m.findings()
		got := finding(fs, "kubelet", doctor.Warning)
		if e.exit != 0 || !strings.Contains(got, "may accept what those refuse: maxPod") {
			t.Errorf("%s: doctor: got exit %d and %q, want 0 and the same warning: %s", version, e.exit, got, e.out)
		}
		want := version + " is not a version that this prelet knows"
		if version == "v1.99.0" {
			want = version + " is newer than what this prelet knows"
		}
		if !strings.Contains(e.out, want) {
			t.Errorf("%s: doctor: got %s, want %q in it", version, e.out, want)
		}
	}
}

// The preflight of a node before it joined, after it did, and with its unit masked. It writes nothing and sends no
// token.
func TestDoctor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.answered("v1.36.3")
	m.put("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--container-runtime=remote --max-pods=20\"\n")
	before := m.server.Authorizations()
	e, fs := m.findings()
	if e.exit != 0 { // below another root, the inputs of the unit are unknown
		t.Errorf("got exit %d for a flag that the kubelet may not get, want 0: %s", e.exit, e.out)
	}
	got := finding(fs, "kubelet", doctor.Warning)
	for _, want := range []string{
		"--container-runtime", "set by /var/lib/kubelet/kubeadm-flags.env; whether the kubelet gets it is not " +
			"known", "removed in 1.27",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("kubelet: got %q, want %q in it", got, want)
		}
	}
	if got := finding(fs, "cluster", doctor.OK); !strings.Contains(got, "by ca cert hashes") {
		t.Errorf("cluster: %q in %s", got, e.out)
	}
	if got := finding(fs, "credentials", doctor.OK); !strings.Contains(got, "bootstrap-token can be read") {
		t.Errorf("credentials: %q", got)
	}
	if got := finding(fs, "unit", doctor.OK); !strings.Contains(got, "waits at the gate") {
		t.Errorf("unit: %q in %s", got, e.out)
	}
	if got := m.server.Authorizations(); got != before {
		t.Errorf("the token was sent %d times", got-before)
	}
	if strings.Contains(e.out, strings.Split(m.server.Token(), ".")[1]) {
		t.Error("the token is in the report")
	}
	m.put("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--max-pods=20\"\n")
	m.answered("v1.37.1")
	if _, fs := m.findings(); !strings.Contains(finding(fs, "kubelet", doctor.Warning), "newer than the API server") {
		t.Errorf("a kubelet 1.37 and an API server 1.36: got %+v, want a warning", fs)
	}
	m.answered("v1.36.3")
	if e, _ := m.findings(); e.exit != 0 {
		t.Errorf("not fit: %s", e.out)
	}
	if run, _ := m.boot(); run.exit != 0 {
		t.Fatalf("%+v", run)
	}
	_, fs = m.findings()
	for check, want := range map[string]string{"identity": "has joined", "state": "generation 1 is in place", "unit": "open, on generation 1"} {
		if got := finding(fs, check, doctor.OK); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
	m.masked = true
	if e, fs := m.findings(); e.exit != 3 || !strings.Contains(finding(fs, "unit", doctor.Problem), "is masked") {
		t.Errorf("exit %d: %+v", e.exit, fs)
	}
	text := m.doctor()
	if text.exit != 3 || !strings.Contains(text.out, "problem  unit") ||
		!strings.Contains(text.out, "→ systemctl unmask kubelet.service") {
		t.Errorf("%d:\n%s", text.exit, text.out)
	}
	for i, line := range strings.Split(text.out, "\n") {
		if len([]rune(line)) > 80 && !strings.Contains(line, "/") {
			t.Errorf("line %d has more than 80 columns: %s", i+1, line)
		}
	}
	m.masked, m.gone = false, true
	if _, fs := m.findings(); finding(fs, "unit", doctor.Unread) == "" {
		t.Errorf("without D-Bus: %+v", fs)
	}
}

// If the site cannot be read, everything else is still reported.
func TestDoctorWithoutSite(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.put("/etc/prelet/site.hcl", "stage \"label\" {\n")
	e, fs := m.findings()
	if e.exit != 3 || finding(fs, "site", doctor.Problem) == "" || finding(fs, "unit", doctor.OK) == "" ||
		finding(fs, "runtime", doctor.Unread) == "" {
		t.Errorf("%d: %s", e.exit, e.out)
	}
	if !slices.ContainsFunc(
		fs,
		func(f doctor.Finding) bool { return f.Check == "site" && strings.Contains(f.Place, ":1:") },
	) {
		t.Errorf("no place: %+v", fs)
	}
}
