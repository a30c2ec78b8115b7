package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/app"
	"github.com/prelet/prelet/internal/kubelet"
)

// putTaints writes the site with taints and, unless credential is empty, with a taint_credential.
func (m *machine) putTaints(credential string, taints ...string) {
	m.t.Helper()
	site := m.site + "stage \"taint\" \"x\" { taints = [\"" + strings.Join(taints, `", "`) + "\"] }\n"
	if len(taints) == 0 {
		site = m.site
	}
	if credential != "" {
		site = strings.Replace(site, `stage "restart" "kubelet" {}`,
			`stage "restart" "kubelet" { taint_credential = "`+credential+`" }`, 1)
	}
	m.put("/etc/prelet/site.hcl", site)
}

func (m *machine) wantTainted(what string, want ...string) {
	m.t.Helper()
	got := m.tainted
	m.tainted = nil
	if !slices.Equal(got, want) {
		m.t.Errorf("%s: got patches %q, want %q", what, got, want)
	}
}

// With a credential the taints of the site are put on a node that has joined, and taken away when the site has them no
// longer; those of others and startup taints stay as they are.
func TestTaintCredential(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.putTaints("taints", "example.com/a=b:NoSchedule", "karpenter.sh/unregistered:NoExecute")
	foreign := kubelet.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}
	m.taints = []kubelet.Taint{ // Karpenter has removed its own
		{Key: "example.com/a", Value: "b", Effect: "NoSchedule"}, foreign,
	}
	m.boot()
	m.wantTainted("registered as planned: only the owner is noted", "")

	m.taints = []kubelet.Taint{foreign} // somebody removes it
	m.want("verify", m.as("", "verify"), ended{0, "example.com/a=b:NoSchedule is missing", ""})
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.wantTainted("put back", "example.com/a=b:NoSchedule")
	if out := m.as("", "verify").out; strings.Contains(out, "karpenter") {
		t.Errorf("verify: got\n%s\nwant no drift for a startup taint", out)
	}

	m.putTaints("taints", "example.com/c:NoExecute")
	m.as(app.ApplyUnit, "run")
	m.wantTainted("another one", "example.com/c:NoExecute example.com/a=b:NoSchedule-")
	m.putTaints("taints")
	m.as(app.ApplyUnit, "run")
	m.wantTainted("none", "example.com/c:NoExecute-")
	if !slices.Equal(m.taints, []kubelet.Taint{foreign}) {
		t.Errorf("taints: got %v, want that of another party", m.taints)
	}

	m.reboot()
	m.boot()
	m.wantTainted("a boot without a change")
}

// TestStartupTaint: a taint that the site declares as one of another program, with a key that prelet does not know, is set at
// registration, and then never compared, put back or removed.
func TestStartupTaint(t *testing.T) {
	t.Parallel()
	const key = "nic.example.com/validation-pending"
	m := newMachine(t)
	m.putTaints("taints", "example.com/a=b:NoSchedule")
	own := m.read("/etc/prelet/site.hcl")
	m.put("/etc/prelet/site.hcl", own+"stage \"taint\" \"startup\" {\n  startup = true\n  taints = [\""+key+":NoSchedule\"]\n}\n")
	m.boot()
	if flags := m.read("/etc/default/kubelet") + m.read("/var/lib/kubelet/config.yaml"); !strings.Contains(flags, key) {
		t.Errorf("got %s, want a registration with %s", flags, key)
	}
	m.wantTainted("a boot", "example.com/a=b:NoSchedule")

	m.taints = []kubelet.Taint{{Key: "example.com/a", Value: "b", Effect: "NoSchedule"}} // its owner removes it
	m.wantNoWord(key, "verify")
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.wantTainted("its owner has removed it")
	m.wantNoWord(key, "status")

	pending := kubelet.Taint{Key: key, Effect: "NoSchedule"}
	m.taints = append(m.taints, pending) // its owner adds it again
	m.put("/etc/prelet/site.hcl", own)
	m.as(app.ApplyUnit, "run")
	m.wantTainted("the site drops it")
	if !slices.Contains(m.taints, pending) {
		t.Errorf("got taints %v, want that of its owner", m.taints)
	}
	m.wantNoWord(key, "verify")
}

// wantNoWord checks that the output of a command by hand does not have a word.
func (m *machine) wantNoWord(word string, args ...string) {
	m.t.Helper()
	if r := m.as("", args...); strings.Contains(r.out+r.errors, word) {
		m.t.Errorf("%s: got %s%s; want nothing about %s", args, r.out, r.errors, word)
	}
}

const baseTaints = clusterConfig + "registerWithTaints: [{key: example.com/base, value: x, effect: NoSchedule}]\n"

func (m *machine) putKubeletConfig(text string) {
	m.server.SetConfigMap("kube-system", "kubelet-config", map[string]string{"kubelet": text})
}

// wantStatus checks that the status succeeds and has the texts.
func (m *machine) wantStatus(texts ...string) {
	m.t.Helper()
	status := m.as("", "status")
	for _, text := range texts {
		if status.exit != 0 || !mentions(status.out, text) {
			m.t.Errorf("status: got exit %d and\n%s\nwant exit 0 and %q", status.exit, status.out, text)
		}
	}
}

// A taint of the base that the base drops is not the site's: it stays, as drift with the command.
func TestTaintCredentialKeepsTaintsOfTheBase(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.putKubeletConfig(baseTaints)
	m.putTaints("taints", "example.com/a=b:NoSchedule")
	m.taints = []kubelet.Taint{
		{Key: "example.com/a", Value: "b", Effect: "NoSchedule"},
		{Key: "example.com/base", Value: "x", Effect: "NoSchedule"},
	}
	m.boot()
	m.wantTainted("registered as planned: only the owner is noted", "")
	m.putKubeletConfig(clusterConfig)
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "Generation 2", ""})
	m.wantTainted("the base dropped its taint")
	m.wantStatus("example.com/base=x:NoSchedule is there, and no longer planned", "only taints of its own",
		"kubectl taint node n1 --overwrite example.com/base=x:NoSchedule-")
}

// A taint that moves from a stage to the base is planned all the time, so the Node keeps it; prelet owns it no longer.
func TestTaintMovesToTheBase(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.putTaints("taints", "example.com/base=x:NoSchedule")
	m.taints = []kubelet.Taint{{Key: "example.com/base", Value: "x", Effect: "NoSchedule"}}
	m.boot()
	m.wantTainted("registered as planned: only the owner is noted", "")
	m.putKubeletConfig(baseTaints)
	m.putTaints("taints")
	m.as(app.ApplyUnit, "run")
	m.wantTainted("moved: only the owner is noted", "")
	if owned := m.annotations["prelet.github.io/taints"]; owned != "" || len(m.taints) != 1 {
		t.Errorf("got annotation %q and taints %v, want none and that of the base", owned, m.taints)
	}

	m.taints = nil // somebody removes it
	m.as(app.ApplyUnit, "run")
	m.wantTainted("the base's taint is missing")
	m.wantStatus("example.com/base=x:NoSchedule is missing", "only taints of its own",
		"kubectl taint node n1 --overwrite example.com/base=x:NoSchedule")
}

// Another party's value for the key and effect of a taint is neither overwritten nor removed later.
func TestTaintOfAnotherParty(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	infra := kubelet.Taint{Key: "dedicated", Value: "infra", Effect: "NoSchedule"}
	m.taints = []kubelet.Taint{infra}
	m.boot()
	m.putTaints("taints", "dedicated=gpu:NoSchedule", "example.com/a:NoSchedule")
	m.as(app.ApplyUnit, "run")
	m.wantTainted("a conflict", "example.com/a:NoSchedule")
	m.wantStatus("patched: example.com/a:NoSchedule",
		"dedicated=gpu:NoSchedule is missing: the Node has dedicated=infra:NoSchedule",
		"kubectl taint node n1 --overwrite dedicated=gpu:NoSchedule")
	m.putTaints("taints")
	m.as(app.ApplyUnit, "run")
	m.wantTainted("the site drops both", "example.com/a:NoSchedule-")
	if !slices.Equal(m.taints, []kubelet.Taint{infra}) {
		t.Errorf("taints: got %v, want that of another party", m.taints)
	}
}

// Without an answer of the server the command has all taints of the site.
func TestTaintsWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.putTaints("taints", "example.com/a=b:NoSchedule", "karpenter.sh/unregistered:NoExecute")
	m.boot()
	m.wantTainted("a boot", "example.com/a=b:NoSchedule")
	m.taints = nil // somebody removes it
	m.nodeFail = errors.New("the apiserver does not answer")
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "No changes", ""})
	m.wantTainted("the server is away")
	m.wantStatus("the apiserver does not answer",
		"kubectl taint node n1 --overwrite example.com/a=b:NoSchedule")
	if out := m.as("", "status").out; strings.Contains(out, "overwrite example.com/a=b:NoSchedule karpenter") {
		t.Errorf("status: got\n%s\nwant no startup taint in the command", out)
	}

	m.nodeFail = nil
	m.as(app.ApplyUnit, "run")
	m.wantTainted("a later run", "example.com/a=b:NoSchedule")
}

// Without the credential, or when it cannot be used, the difference is reported with the kubectl command.
func TestTaintCredentialFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		credential string
		err        error
		want       string
	}{
		"none":    {"", nil, "a node cannot change its own taints"},
		"missing": {"taints", errors.New("prelet-apply.service needs LoadCredential=taints"), "LoadCredential=taints"},
		"refused": {"taints", refusal{}, "does not let the client of credential taints do that"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.boot()
			m.taintFail = c.err
			m.putTaints(c.credential, "example.com/a=b:NoSchedule")
			m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "healthy", ""})
			m.wantTainted("a failure")
			status := m.as("", "status")
			for _, text := range []string{c.want, "kubectl taint node n1 --overwrite example.com/a=b:NoSchedule"} {
				if status.exit != 0 || !mentions(status.out, text) {
					t.Errorf("status: got exit %d and\n%s\nwant exit 0 and %q", status.exit, status.out, text)
				}
			}
		})
	}
}

type changed struct{}

func (changed) Error() string { return "the object has been modified" }
func (changed) Changed() bool { return true }

// A Node that changes again and again while it is patched is left to the next run.
func TestTaintsOfABusyNode(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.boot()
	m.taintFail = changed{}
	m.putTaints("taints", "example.com/a=b:NoSchedule")
	m.want("run", m.as(app.ApplyUnit, "run"), ended{0, "healthy", ""})
	m.want("status", m.as("", "status"), ended{0, "changed 5 times", ""})
	m.taintFail = nil
	m.as(app.ApplyUnit, "run")
	m.wantTainted("the next run", "example.com/a=b:NoSchedule")
}
