package probe

import (
	"encoding/base64"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
)

// given are credentials whose names are known, as a unit's are.
type given map[string]string

func (g given) Read(name string) ([]byte, error) { return creds(g).Read(name) }
func (g given) Names() ([]string, error)         { return slices.Sorted(maps.Keys(g)), nil }

const canary = "CANARY-k2 \"q\" <&>"

func newSecretive(t *testing.T, root string) *Live {
	t.Helper()
	s := &lang.Site{Variables: map[string]*lang.Variable{"zone": {Name: "zone"}, "pw": {Name: "pw", Sensitive: true}}}
	l := newLive(t, Sources{
		Root: root, Site: s, Redactor: secret.NewRedactor(),
		Credentials: given{"k2": canary, "prelet.var.zone": "eu-central-1", "prelet.var.pw": "correct horse"},
	})
	return l
}

// TestSecretsAreNoAnswers reads files that hold a secret by their place, or because a credential does.
func TestSecretsAreNoAnswers(t *testing.T) {
	root := t.TempDir()
	encoded := "x" + base64.StdEncoding.EncodeToString([]byte("a"+canary+"b"))
	files := table.YAML[map[string]struct{ Text, Want string }](t, `
/etc/plain: {text: "zone: eu-central-1\n"}
/etc/ca.crt: {text: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"}
/etc/copy: {text: "password=CANARY-k2 \"q\" <&>\n", want: contains a secret of this node}
/etc/json: {text: '{"p": "CANARY-k2 \"q\" <&>"}', want: contains a secret of this node}
/etc/base64: {text: '{encoded}', want: contains a secret of this node}
/etc/key: {text: "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEICANARY\n-----END PRIVATE KEY-----\n"}
/etc/proxy: {text: "p=http://u:CANARY-pw@proxy\n"}
/etc/variable: {text: correct horse, want: contains a secret of this node}
/etc/shadow: {text: "root:*:1::::::\n", want: /etc/shadow}
/run/credentials/prelet.service/k3: {text: other, want: /run/credentials}
/etc/credstore/k4: {text: other, want: /etc/credstore}
/var/lib/prelet/generations/1/new/x: {text: other, want: /var/lib/prelet}
/var/lib/prelet-exporter/config.yaml: {text: other}
`, "encoded", encoded)
	for p, f := range files {
		place(t, root, p, f.Text)
	}
	must(t, os.Symlink("../run/credentials/prelet.service/k3", filepath.Join(root, "etc/link")))
	files["/etc/link"] = struct{ Text, Want string }{"", "/run/credentials"}
	l := newSecretive(t, root)

	must(t, os.Chmod(filepath.Join(root, "run/credentials"), 0o700))
	for p, f := range files {
		got, a, err := tape.File.Ask(t.Context(), l, tape.FileReq{Path: p})
		switch {
		case f.Want == "" && (err != nil || got.Text != f.Text):
			t.Errorf("%s: got %q, %v; want its text", p, got.Text, err)
		case f.Want != "" && (a.Code() != fault.Denied || !strings.Contains(a.Why(), f.Want)):
			t.Errorf("%s: got %q, %s %q; want denied for %q", p, got.Text, a.Code(), a.Why(), f.Want)
		}
		if strings.Contains(a.Why(), "CANARY") {
			t.Errorf("%s: got reason %q, want it without the secret", p, a.Why())
		}
	}

	if _, a, err := tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: "/etc/copy"}); err == nil ||
		a.Value != nil {
		t.Errorf("original: got %s, want a failure", a.Value)
	}
}

// TestDescribeSecret recognises the secrets that people leave in images.
func TestDescribeSecret(t *testing.T) {
	pem := "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIE\n-----END EC PRIVATE KEY-----\n"
	kubeconfig := func(user string) string {
		return "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: " +
			"https://10.0.0.1:6443}\nusers:\n- name: u\n  user: " + user + "\n"
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("x" + pem))
	bare, byToken, byPassword := kubeconfig("{}"), kubeconfig("{\"token\": abcdef}"), kubeconfig("{username: a, password: b}")
	byKey := kubeconfig("{client-key-data: " + base64.StdEncoding.EncodeToString([]byte(pem)) + "}")
	inLines := encoded[:30] + "\n" + encoded[30:] + "\n"
	for text, want := range table.YAML[map[string]string](t, `
"zone: eu-central-1\n": ''
"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n": ''
'{bare}': ''
'{pem}': a private key
'{inLines}': a private key
'{byKey}': a private key
'{byToken}': a kubeconfig with credentials
'{byPassword}': a kubeconfig with credentials
"abcdef.0123456789abcdef\n": a bootstrap token
eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl: a token of a service account
"apiVersion: v1\nkind: Secret # x\nstringData: {a: b}\n": a Secret of Kubernetes
'{"kind":"SecretList","items":[]}': a Secret of Kubernetes
"kind: SecretStore\nname: kind: Secret x\n": ''
"root:$6$abc$def/ghi:19000:0:99999:7:::\n": hashes of passwords
`, "bare", bare, "pem", pem, "inLines", inLines, "byKey", byKey, "byToken", byToken, "byPassword", byPassword) {
		if got := DescribeSecret(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestPrivateTargets keeps the content of a managed file on the node where it may be a secret, and compares it there.
func TestPrivateTargets(t *testing.T) {
	const (
		kind   = "kind: KubeletConfiguration\n"
		config = "apiVersion: kubelet.config.k8s.io/v1beta1\n" + kind
		fields = "staticPodURLHeader: {Authorization: [x]}\n"
		header = config + fields
		state  = `{"policyName":"static","checksum":1}`
	)
	files := table.YAML[map[string]struct {
		Text      string
		Mode      os.FileMode
		IsPrivate bool
	}](t, `
/etc/private: {text: "password=x\n", mode: 0o600, isPrivate: true}
/etc/open: {text: "plain\n", mode: 0o644}
/etc/canary: {text: "password=CANARY-k2 \"q\" <&>\n", mode: 0o644, isPrivate: true}
/etc/token: {text: "abcdef.0123456789abcdef\n", mode: 0o640, isPrivate: true}
/etc/key-for-all: {text: "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI\n", mode: 0o644, isPrivate: true}
/etc/kubelet: {text: '{config}', mode: 0o600}
/etc/header: {text: "kind: KubeletConfiguration\n{fields}", mode: 0o600, isPrivate: true}
/etc/header-for-all: {text: '{header}', mode: 0o644, isPrivate: true}
/etc/no-header: {text: "{config}staticPodURLHeader: {}\n", mode: 0o644}
/etc/state: {text: '{state}', mode: 0o600, isPrivate: true}
/etc/app: {text: "{config}key: x\n", mode: 0o600, isPrivate: true}
/etc/own/a/x: {text: "password=x\n", mode: 0o644, isPrivate: true}
/etc/group/a/x: {text: "password=x\n", mode: 0o644, isPrivate: true}
/etc/all/a/x: {text: "password=x\n", mode: 0o644}
/etc/own/config: {text: '{config}', mode: 0o644}
/etc/0640: {text: "plain\n", mode: 0o640, isPrivate: true}
/etc/0660: {text: "plain\n", mode: 0o660, isPrivate: true}
/etc/0604: {text: "plain\n", mode: 0o604, isPrivate: true}
/etc/0444: {text: "plain\n", mode: 0o444}
/etc/below/0705/x: {text: "plain\n", mode: 0o644, isPrivate: true}
/etc/below/0711/x: {text: "plain\n", mode: 0o644}
/var/lib/kubelet/cpu_manager_state: {text: '{state}', mode: 0o600}
/var/lib/kubelet/creds.yaml: {text: "kind: CredentialProviderConfig\n", mode: 0o644}
/var/lib/kubelet/own: {text: "password=x\n", mode: 0o600, isPrivate: true}
/var/lib/kubelet/b/a/x: {text: "password=x\n", mode: 0o644, isPrivate: true}
/srv/var/lib/kubelet/a/x: {text: "password=x\n", mode: 0o644, isPrivate: true}
`, "config", config, "fields", fields, "header", header, "state", state)
	root := t.TempDir()
	for path, file := range files {
		placeMode(t, root, path, file.Text, file.Mode)
	}
	for path, mode := range table.YAML[map[string]os.FileMode](t, `
# not a folder of the node
'': 0o700
/etc/own: 0o700
/etc/group: 0o750
/etc/all: 0o751
/etc/below/0705: 0o705
/etc/below/0711: 0o711
/var/lib/kubelet: 0o750
/var/lib/kubelet/b: 0o750
/srv/var/lib/kubelet: 0o750
`) {
		must(t, os.Chmod(root+path, mode))
	}
	l := newSecretive(t, root)

	for path, file := range files {
		want := file.IsPrivate
		got, _, err := tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: path})
		if err != nil || got.Private != want || want != (got.SHA256 == "") || want != (got.Text == "") {
			t.Errorf("%s: got %+v, %v; want private %t", path, got, err, want)
		}
		if path == "/etc/canary" || path == "/etc/token" || path == "/etc/key-for-all" || strings.HasPrefix(path, "/etc/header") {
			continue // secrets by their content: file() has no text of them either
		}
		text, a, err := tape.File.Ask(t.Context(), l, tape.FileReq{Path: path})
		if err != nil || (text.Private != "") != want || want != (text.Text == "") {
			t.Errorf("text of %s: got %+v, %+v; want none %t", path, text, a, want)
		}
	}
	for text, want := range map[string]bool{"password=x\n": true, "password=y\n": false} {
		got, _, err := tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: "/etc/private", Secret: true, Want: text})
		if err != nil || got.Same != want || got.SHA256 != "" {
			t.Errorf("compared with %q: got %+v, %v; want the same %t, and no hash", text, got, err, want)
		}
	}
}

// TestSecretThatIsPlannedNoMore says no hash of a file that held a secret: all but the secret may be known.
func TestSecretThatIsPlannedNoMore(t *testing.T) {
	root, store := newGeneration(t)
	l := newLive(t, Sources{Root: root, Store: store})

	got, _, err := tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: "/etc/secret"})
	if err != nil || !got.Private || got.SHA256 != "" || got.Text != "" {
		t.Errorf("got %+v, %v; want a private file without a hash", got, err)
	}
}

// TestTargetsOfOthersAreNotRead follows no link of another user to what only root may read, and waits for no FIFO of
// his.
func TestTargetsOfOthersAreNotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	root := t.TempDir()
	place(t, root, "/etc/shadow", "root:$6$secret")
	place(t, root, "/home/u/own", "theirs")
	home := filepath.Join(root, "home/u")
	must(t, errors.Join(os.Symlink("../../etc", filepath.Join(home, "d")), os.Chown(home, 1000, 1000)))
	l := newSecretive(t, root)
	for path, want := range map[string]string{"/home/u/d/shadow": "is a link", "/home/u/own": "belongs to uid 1000"} {
		for _, ask := range []func() (tape.TargetAns, tape.Answer, error){
			func() (tape.TargetAns, tape.Answer, error) {
				return tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: path})
			},
			func() (tape.TargetAns, tape.Answer, error) {
				return tape.Original.Ask(t.Context(), l, tape.OriginalReq{Path: path})
			},
		} {
			got, a, err := ask()
			if err == nil && got.Loose == "" || got.Text+got.SHA256 != "" ||
				!strings.Contains(a.Why()+got.Uncompared, want) {
				t.Errorf("%s: got %+v, %v; want no part of it, and %q", path, got, err, want)
			}
		}
	}
}

// TestFIFOInTheWay swaps a file and a FIFO all the time: no look at it waits.
func TestFIFOInTheWay(t *testing.T) {
	root := t.TempDir()
	place(t, root, "/etc/file", "text")
	fifo := filepath.Join(root, "etc/fifo")
	must(t, unix.Mkfifo(fifo, 0o600))
	target, stop := filepath.Join(root, "etc/t"), make(chan struct{})
	swapped := make(chan struct{})
	go func() {
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_, _ = os.Remove(target), os.Link(fifo, target)
			_, _ = os.Remove(target), os.Link(filepath.Join(root, "etc/file"), target)
		}
	}()
	l := newSecretive(t, root)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			_, _, _ = tape.Target.Ask(t.Context(), l, tape.TargetReq{Path: "/etc/t"})
		}
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Error("a look at a target waits for a FIFO; want an answer")
	}
	close(stop)
	<-swapped
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
