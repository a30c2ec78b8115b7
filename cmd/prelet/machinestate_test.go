package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/activation"
	"github.com/prelet/prelet/internal/machine/generation"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
)

const (
	kubeletConf = "/etc/kubernetes/kubelet.conf"
	oldPEM      = "/var/lib/kubelet/pki/kubelet-client-2026-01-01-00-00-00.pem"
	current     = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// joinAs is what a kubelet does: with a bootstrap kubeconfig and no identity of its own it gets a certificate for its
// name. It ends with a certificate that it cannot load, before it joins.
func (m *testMachine) joinAs(name string) func() {
	return func() {
		_, err := os.Stat(m.root + current) // without its file it is as no certificate
		if pem := []byte(m.read(current)); err == nil && m.read(kubeletConf) != "" {
			if _, err := tls.X509KeyPair(pem, pem); err != nil {
				return
			}
		}
		if m.read("/etc/kubernetes/bootstrap-kubelet.conf") == "" ||
			m.read(current) != "" && m.read(kubeletConf) != "" {
			return
		}
		cert, key := m.server.IssueNode(name)
		pem := oldPEM
		if name != "n1" {
			pem = strings.Replace(oldPEM, "01-01", "02-02", 1)
		}
		m.put(pem, string(cert)+string(key))
		_ = os.Remove(m.root + current)
		m.must(os.Symlink(pem, m.root+current))
		m.put(kubeletConf, fileConf(string(m.server.NodeKubeconfig(name))))
	}
}

// fileConf is a kubelet.conf that names its certificate, as a kubelet writes it.
func fileConf(conf string) string {
	var out []string
	for line := range strings.Lines(conf) {
		for _, what := range []string{"client-certificate", "client-key"} {
			if strings.HasPrefix(strings.TrimSpace(line), what+"-data:") {
				line = "    " + what + ": " + current + "\n"
			}
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// node is the name in the certificate that the kubelet would start with; "" for none.
func (m *testMachine) node() string {
	link, err := os.Readlink(m.root + current)
	if err != nil || m.read(kubeletConf) == "" || m.read(link) == "" {
		return ""
	}
	if strings.Contains(link, "01-01") {
		return "n1"
	}
	return "n2"
}

func (m *testMachine) blob(gen int, name string) string {
	m.t.Helper()
	store, err := generation.OpenReadOnly(generation.StoreConfig{Root: m.root, Dir: m.root + "/var/lib/prelet"})
	m.must(err)
	defer store.Close()
	b, err := store.Blob(gen, name)
	m.must(err)
	return string(b)
}

// editState changes a file of the state folder.
func (m *testMachine) editState(name string, change func(text []byte) []byte) {
	m.t.Helper()
	path := filepath.Join(m.stateDir(), name)
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(text), 0o600)
	}
	m.must(err)
}

// flip changes one bit of a text that a generation keeps.
func (m *testMachine) flip(name, text string) {
	m.t.Helper()
	m.editState(name, func(b []byte) []byte {
		head := bytes.IndexByte(b, '\n')
		at := bytes.Index(b[head:], []byte(text))
		if at < 0 {
			m.t.Fatalf("%s keeps no %q, want it", name, text)
		}
		b[head+at] ^= 1
		return b
	})
}

// spoil damages a file of the state folder in a form.
func (m *testMachine) spoil(name, form string) {
	m.t.Helper()
	path := filepath.Join(m.stateDir(), name)
	replace := map[string]func() error{
		"full-folder": func() error { return os.MkdirAll(path+"/x", 0o755) },
		"link":        func() error { return os.Symlink("/dev/null", path) },
	}[form]
	if replace != nil {
		m.must(errors.Join(os.Remove(path), replace()))
		return
	}
	m.editState(name, func(text []byte) []byte {
		return map[string][]byte{
			"empty": nil, "half": text[:len(text)/2], "garbage": []byte("\x00\xff\n{}["), "short": text[:max(0, len(text)-1)],
		}[form]
	})
}

// stateDir is prelet's own folder on the machine.
func (m *testMachine) stateDir() string { return filepath.Join(m.root, "var/lib/prelet") }

// relabel makes the site plan another label.
func (m *testMachine) relabel(value string) {
	m.put("/etc/prelet/site.hcl", strings.ReplaceAll(m.site, `pool" = "a"`, `pool" = "`+value+`"`))
	m.labels["example.com/pool"] = value
}

// halfPublished makes a state folder one whose commit was interrupted in an earlier boot.
func (m *testMachine) halfPublished(dir string) {
	m.t.Helper()
	store, err := generation.Open(m.t.Context(), generation.StoreConfig{Root: m.root, Dir: dir, BootID: "an earlier one"})
	m.must(err)
	defer store.Close()
	target := keptFile("/etc/default/kubelet", "z")
	target.Mode = 0o644
	txn, err := store.Begin(generation.Proposal{PlanID: "z", Targets: []generation.Target{target}})
	if err == nil {
		_, err = txn.Commit()
	}
	m.must(err)
	left, _ := filepath.Glob(m.root + "/etc/default/.prelet-*")
	for _, p := range left {
		m.must(os.Remove(p))
	}
}

// emptyRun removes everything from /run/prelet, as systemctl clean --what=runtime does.
func (m *testMachine) emptyRun() {
	m.t.Helper()
	m.must(errors.Join(os.RemoveAll(m.run), os.Mkdir(m.run, 0o755)))
}

// byNewer rewrites a document of the state folder as a prelet of a later format would have written it: with another
// version, a member that this one does not know, and its own checksum. What follows the first line stays.
func (m *testMachine) byNewer(name string, change func(doc map[string]any)) {
	m.t.Helper()
	m.editState(name, func(text []byte) []byte {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		doc := map[string]any{}
		m.must(json.Unmarshal(line, &doc))
		delete(doc, "sha256")
		doc["version"] = 99
		doc["later"] = "unknown"
		change(doc)
		body := bytes.TrimSuffix(must(json.Marshal(doc)), []byte("}"))
		return fmt.Appendf(nil, "%s,\"sha256\":%q}\n%s", body, generation.Checksum(body), rest)
	})
}

// planByNewer changes a text in the stored spec of a generation, with the checksums of spec and manifest.
func (m *testMachine) planByNewer(gen int, old, new string) {
	m.t.Helper()
	name := fmt.Sprintf("generations/%d", gen)
	plan := m.blob(gen, activation.SpecBlob)
	changed := strings.Replace(plan, old, new, 1)
	if changed == plan || len(changed) != len(plan) {
		m.t.Fatalf("%q in %s: got no replacement of the same length", old, plan)
	}
	m.editState(name, func(text []byte) []byte { return bytes.Replace(text, []byte(plan), []byte(changed), 1) })
	was, is := generation.Checksum([]byte(plan)), generation.Checksum([]byte(changed))
	m.byNewer(name, func(doc map[string]any) {
		doc["version"] = 2
		delete(doc, "later")
		for _, p := range doc["parts"].([]any) {
			if part := p.(map[string]any); part["sha256"] == was {
				part["sha256"] = is
			}
		}
	})
}

// commands are the lines of a message that are for a shell, in their order.
func commands(message string) (out []string) {
	for line := range strings.Lines(message) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "prelet ") {
			out = append(out, line)
		}
	}

	return out
}

// paste runs a line as it was printed: in a shell, or in this process where it is prelet's.
func (m *testMachine) paste(line string) ended {
	m.t.Helper()
	if args, ok := strings.CutPrefix(line, "prelet "); ok {
		args, _, _ = strings.Cut(args, " --root ") // where these machines have their files
		return m.as("", strings.Fields(args)...)
	}
	out, err := exec.Command("sh", "-c", line).CombinedOutput()
	if err != nil {
		m.t.Errorf("%s: %v\n%s", line, err, out)
	}

	return ended{}
}

// staged makes a commit of one file ready, which is changed or added, and ends there.
func (m *testMachine) staged(path string, then func(*generation.Txn) error) {
	m.t.Helper()
	store := m.lock()
	defer store.Close() // as when the process is killed
	spec, targets := must(activation.Spec{}.Encode()), []generation.Target(nil)
	if cur := must(store.Current()); cur != nil {
		spec, targets = must(store.Blob(cur.Gen, activation.SpecBlob)), targetsOf(m, cur, store)
	}
	i := slices.IndexFunc(targets, func(t generation.Target) bool { return t.Path == path })
	if i < 0 {
		i = len(targets)
		targets = append(targets, keptFile(path, ""))
	}
	targets[i].Content = append(targets[i].Content, "# half\n"...)
	txn, err := store.Begin(
		generation.Proposal{PlanID: "half", Targets: targets, Blobs: map[string][]byte{activation.SpecBlob: spec}},
	)
	if err == nil {
		err = then(txn)
	}
	m.must(err)
}

// keptFile is a file whose mode and owner stay.
func keptFile(path, text string) generation.Target {
	return generation.Target{
		Path: path, Kind: generation.File, Content: []byte(text),
		Mode: generation.Keep, UID: generation.Keep, GID: generation.Keep,
	}
}

// interrupted is staged with the commit, and a gate that is shut for it.
func (m *testMachine) interrupted(path string) {
	m.t.Helper()
	m.staged(path, func(t *generation.Txn) error { _, err := t.Commit(); return err })
	gate := activation.Gate{Dir: m.run, BootID: m.bootID()}
	m.must(errors.Join(gate.Shut("in the middle"), gate.MarkOwed("kubelet.service")))
	if _, err := m.Stop(m.t.Context(), "kubelet.service", 0); err != nil {
		m.t.Fatal(err)
	}
}

// served makes prelet-apply.service start, which runs `prelet run` with the credentials that a person has not.
func (m *testMachine) served() {
	m.units.apply = func() {
		m.t.Helper()
		self := m.creds
		m.creds = self + "/of-the-unit"
		m.as(machine.ApplyUnit, "run")
		m.creds = self
	}
	credentials := m.creds
	m.must(os.Mkdir(credentials+"/of-the-unit", 0o700))
	m.must(os.Rename(credentials+"/bootstrap-token", credentials+"/of-the-unit/bootstrap-token"))
}

// requests returns the files of requests that no process has taken.
func (m *testMachine) requests() []string {
	m.t.Helper()
	names, err := filepath.Glob(filepath.Join(m.run, "request-*"))
	m.must(err)
	return names
}

func targetsOf(m *testMachine, cur *generation.Info, store *generation.Store) (out []generation.Target) {
	for _, e := range cur.Entries {
		if e.New.Kind == generation.File && m.read(e.Path) != "" {
			out = append(out, keptFile(e.Path, string(must(store.Content(e.New.SHA256)))))
		}
	}
	return out
}

// answered puts a binary there and what it would say, as it is kept, for below another root it is not run.
func (m *testMachine) answered(version string) {
	m.t.Helper()
	m.put("/usr/bin/kubelet", "no program")
	m.must(os.Chmod(filepath.Join(m.root, "/usr/bin/kubelet"), 0o755))
	c, ok := kubeletbin.Find(m.root, "", nil).Keep(version, nil)
	b, err := c.Marshal()
	if err != nil || !ok {
		m.t.Fatal("what the kubelet says is not kept: ", err)
	}
	m.put("/var/lib/prelet/kubelet.json", string(b))
}

type refusal struct{}

func (refusal) Error() string { return "admission webhook denied the request" }
func (refusal) Refused() bool { return true }

// unreachable is an API server that does not answer.
type unreachable struct{}

func (unreachable) Error() string { return "connection refused" }
func (unreachable) Unknown() bool { return true }

type changed struct{}

func (changed) Error() string { return "the object has been modified" }
func (changed) Changed() bool { return true }
