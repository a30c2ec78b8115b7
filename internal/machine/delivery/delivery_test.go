package delivery

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/report"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/internal/testing/ociserver"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/schema"
)

const (
	stable = "registry.example.com/sites/gpu:stable"
	mirror = "mirror.example.com/sites/gpu:stable"

	repository = "registry.example.com/sites/gpu"
)

// fakeRegistry has artifacts by reference, as Parse prints them. A reference without one does not answer.
type fakeRegistry struct {
	sites map[string]*registry.Artifact
	pulls int
	fails func() error // nil: nothing does
}

func (f *fakeRegistry) find(ref registry.Reference) (*registry.Artifact, error) {
	for name, a := range f.sites {
		at, _ := registry.Parse(name)
		isMoved := at.Name() == ref.Name() && a.Digest == ref.Digest
		if at == ref || isMoved {
			return a, nil
		}
	}

	return nil, fault.Registry.Errorf("%s does not answer", ref)
}

func (f *fakeRegistry) Resolve(_ context.Context, ref registry.Reference) (string, error) {
	a, err := f.find(ref)
	if err == nil && f.fails != nil {
		err = f.fails()
	}
	if err != nil {
		return "", err
	}

	return a.Digest, nil
}

func (f *fakeRegistry) Pull(_ context.Context, ref registry.Reference) (*registry.Artifact, error) {
	f.pulls++

	return f.find(ref)
}

// artifact returns a site with one file. The list may be nil.
func artifact(text string, list *lang.SignedList) *registry.Artifact {
	files := []registry.File{{Name: "pulled.hcl", Text: []byte(text)}}
	if list != nil {
		list.Add([]tape.SiteFile{{Name: "pulled.hcl", Text: text}})
		listed := must(list.Format())
		files = append(files, registry.File{Name: lang.ListFile, Text: listed},
			registry.File{Name: lang.SignatureFile, Text: sign(listed)})
	}

	return &registry.Artifact{Digest: digestOf(files), Files: files}
}

// digestOf returns a digest that other files do not have.
func digestOf(files []registry.File) string {
	all := map[string][]byte{}
	for _, f := range files {
		all[f.Name] = f.Text
	}

	return "sha256:" + machine.SumFiles(all)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}

	return v
}

// testKey signs sites in tests.
func testKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)) }

// wire encodes texts as strings of RFC 4251.
func wire(texts ...string) (out string) {
	for _, s := range texts {
		out += string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
	}

	return out
}

func publicKey() string {
	return wire("ssh-ed25519", string(testKey().Public().(ed25519.PublicKey)))
}

// sign returns a signature as ssh-keygen -Y sign -n prelet-site writes it (PROTOCOL.sshsig of OpenSSH).
func sign(text []byte) []byte {
	const namespace = "prelet-site"
	sum := sha512.Sum512(text)
	raw := ed25519.Sign(testKey(), []byte("SSHSIG"+wire(namespace, "", "sha512", string(sum[:]))))
	blob := "SSHSIG\x00\x00\x00\x01" + wire(publicKey(), namespace, "", "sha512", wire("ssh-ed25519", string(raw)))
	encoded := base64.StdEncoding.EncodeToString([]byte(blob))
	var lines []string
	for part := range slices.Chunk([]byte(encoded), 70) {
		lines = append(lines, string(part))
	}

	return []byte("-----BEGIN SSH SIGNATURE-----\n" + strings.Join(lines, "\n") + "\n-----END SSH SIGNATURE-----\n")
}

// node is a node below a folder.
type node struct {
	t    *testing.T
	root string
	reg  *fakeRegistry
	Config

	credentials string // the folder of its unit's credentials
}

// newNode returns a node whose image has a key and a delivery block with these lines.
func newNode(t *testing.T, block string) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir(), reg: &fakeRegistry{sites: map[string]*registry.Artifact{}}}
	n.Registry = n.reg
	n.WaitClock = func(context.Context) error { return nil }
	n.write("/usr/lib/prelet/site/00-image.hcl", "delivery {\n"+block+"\n}\n")
	n.write("/usr/lib/prelet/site-signers", "ssh-ed25519 "+base64.StdEncoding.EncodeToString([]byte(publicKey()))+"\n")

	return n
}

func (n *node) write(name, text string) {
	n.t.Helper()
	osfile.WriteTree(n.t, n.root, map[string]string{strings.TrimPrefix(name, "/"): text})
}

func (n *node) removeKeys() {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.root, "usr/lib/prelet/site-signers")); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) state() string { return filepath.Join(n.root, machine.StateFolder) }

func (n *node) env() *machine.Env {
	getenv := func(name string) string { return map[string]string{"CREDENTIALS_DIRECTORY": n.credentials}[name] }

	return &machine.Env{Getenv: getenv, Redactor: secret.NewRedactor(), Say: func(string) {}}
}

// giveCredential gives a credential to the unit of the node.
func (n *node) giveCredential(name, text string) {
	n.t.Helper()
	n.credentials = n.t.TempDir()
	if err := os.WriteFile(filepath.Join(n.credentials, name), []byte(text), 0o400); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) update() (Result, error) { return Update(n.t.Context(), n.env(), n.root, n.Config) }

// check updates and compares the stored site, and a part of the error, "" for none.
func (n *node) check(want *registry.Artifact, wantErr string) {
	n.t.Helper()
	_, err := n.update()
	if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
		n.t.Errorf("update: got error %v, want one with %q", err, wantErr)
	}

	digest := ""
	if want != nil {
		digest = want.Digest
	}
	d, err := machine.ReadDelivery(n.state())
	if err != nil || d.Digest != digest {
		n.t.Fatalf("record: got %+v, %v, want digest %q", d, err, digest)
	}
	if (d.Failed != "") != (wantErr != "") {
		n.t.Errorf("record: got failed %q, want one with %q", d.Failed, wantErr)
	}

	l := n.env().Load(machine.Where{Root: n.root})
	isPulled := func(f tape.SiteFile) bool { return strings.HasSuffix(f.Name, "pulled.hcl") }
	hasPulled := slices.ContainsFunc(l.Site.Files, isPulled)
	if hasPulled != (want != nil) {
		n.t.Errorf("site: got a pulled file %t, want %t: %v", hasPulled, want != nil, l.Diags)
	}
}

func listOf(counter uint64, change ...func(*lang.SignedList)) *lang.SignedList {
	l := &lang.SignedList{Name: "gpu", Repository: repository, Counter: counter}
	for _, f := range change {
		f(l)
	}

	return l
}

const locals = "locals { version = %d }\n"

func site(counter uint64, change ...func(*lang.SignedList)) *registry.Artifact {
	return artifact(fmt.Sprintf(locals, counter), listOf(counter, change...))
}

// TestUpdate follows one node: a first site, a new one, a tag that goes back, a registry that does not answer, and
// sites that are refused, after each of which the last verified site stays.
func TestUpdate(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	n.check(nil, "does not answer")
	l := n.env().Load(machine.Where{Root: n.root})
	if !strings.Contains(l.Diags.Error(), "There is no pulled site") {
		t.Errorf("without a site: got %v, want an error", l.Diags)
	}

	first, second := site(1), site(2)
	n.reg.sites[stable] = first
	n.check(first, "")
	n.reg.sites[stable] = second
	n.check(second, "")
	n.reg.pulls = 0
	n.check(second, "")
	if n.reg.pulls != 0 {
		t.Errorf("pulls of a known digest: got %d, want 0", n.reg.pulls)
	}
	n.reg.sites[stable] = first // an operator goes back by the tag
	n.check(first, "")

	delete(n.reg.sites, stable)
	n.check(first, "does not answer")

	past := func(l *lang.SignedList) { l.Expires = time.Now().Add(-time.Hour) }
	forged := site(3)
	forged.Files[0].Text = []byte("locals { version = 4 }\n")
	foreign := site(3)
	foreign.Files[2].Text = sign([]byte("another list"))
	unsigned := site(3)
	unsigned.Files = unsigned.Files[:2]
	for _, a := range []*registry.Artifact{forged, foreign, unsigned} {
		a.Digest = digestOf(a.Files)
	}
	refused := map[string]*registry.Artifact{
		"ring":               site(3, func(l *lang.SignedList) { l.Ring = "canary" }),
		"repository":         site(3, func(l *lang.SignedList) { l.Repository = "registry.example.com/sites/cpu" }),
		"--repository regis": site(3, func(l *lang.SignedList) { l.Repository = "" }),
		"expired":            site(3, past),
		"was changed":        forged,
		"not valid":          foreign,
		"sig is missing":     unsigned,
		"no site.sha256":     artifact(fmt.Sprintf(locals, 3), nil),
		"# name:":            artifact(fmt.Sprintf(locals, 3), &lang.SignedList{Counter: 3}),
		"not a site":         artifact("stage \"none\" \"a\" {}\n", listOf(3)),
		"delivery is define": artifact("delivery { ring = \"canary\" }\n", listOf(3)),
	}
	for why, a := range refused {
		n.t = t
		n.reg.sites[stable] = a
		if why == "not a site" || why == "delivery is define" || why == "no site.sha256" || why == "# name:" {
			why = "refused"
		}
		n.check(first, why)
		n.reg.pulls = 0
		n.check(first, why)
		if n.reg.pulls != 0 {
			t.Errorf("%s: got %d pulls at the second look, want none", why, n.reg.pulls)
		}
		d, _ := machine.ReadDelivery(n.state())
		if d.Refused == nil || d.Refused.Digest != a.Digest {
			t.Errorf("%s: got refused %+v, want %s", why, d.Refused, a.Digest)
		}
	}

	n.WaitClock = func(context.Context) error { return errors.New("not set") }
	late := site(4, past)
	n.reg.sites[stable] = late
	n.check(late, "")
}

// TestNotBelow checks that a node which has accepted a list with not-below takes none below it.
func TestNotBelow(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	n.reg.sites[stable] = site(5)
	n.check(n.reg.sites[stable], "")
	n.write(machine.StateFolder+"/site-not-below", "{\"gpu\":5}\n")
	five := n.reg.sites[stable]
	n.reg.sites[stable] = site(4)
	n.check(five, "below 5")
}

// TestRemovedKey follows a node whose next image lacks the key that has signed its site: it is not used any more, and
// neither is a new one by that key. With the key the new one is taken.
func TestRemovedKey(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	first := site(1)
	n.reg.sites[stable] = first
	n.check(first, "")
	keys := string(must(os.ReadFile(filepath.Join(n.root, "usr/lib/prelet/site-signers"))))
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	n.write("/usr/lib/prelet/site-signers", "ssh-ed25519 "+
		base64.StdEncoding.EncodeToString([]byte(wire("ssh-ed25519", string(other))))+"\n")

	for _, a := range []*registry.Artifact{first, site(2)} {
		n.reg.sites[stable] = a
		_, err := n.update()
		l := n.env().Load(machine.Where{Root: n.root})
		if err == nil || !strings.Contains(err.Error(), "is refused") || strings.Contains(err.Error(), "keeps the site") ||
			!l.Diags.HasErrors() {
			t.Errorf("without the key: got %v and %v, want the site refused, and none in use", err, l.Diags)
		}
	}

	n.write("/usr/lib/prelet/site-signers", keys)
	n.check(n.reg.sites[stable], "")
}

// TestRing checks that a pulled site changes neither the ring nor the place, that /etc does, and that a stored site of
// another ring is not used.
func TestRing(t *testing.T) {
	n := newNode(t, "from = [\""+stable+"\"]\nring = \"canary\"\nname = \"gpu\"")
	canary := func(l *lang.SignedList) { l.Ring = "canary" }
	override := artifact("override {\n  delivery {\n    ring = \"stable\"\n    from = [\""+mirror+"\"]\n  }\n}\n",
		listOf(1, canary))
	n.reg.sites[stable] = override
	n.check(override, "")
	next := site(2, canary)
	n.reg.sites[stable] = next
	n.reg.sites[mirror] = site(3)
	n.check(next, "")

	n.removeKeys()
	n.write("/etc/prelet/ring.hcl", "override {\n  delivery { ring = \"stable\" }\n}\n")
	l := n.env().Load(machine.Where{Root: n.root})
	if !strings.Contains(l.Diags.Error(), `of the ring "canary", and this node is of the ring "stable"`) {
		t.Errorf("site of another ring: got %v, want an error", l.Diags)
	}
}

// TestPlaces checks the order of places: a later one is used where the earlier one fails, and only for a newer site.
func TestPlaces(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`", "`+mirror+`"]`)
	two := site(2)
	n.reg.sites[mirror] = two // the mirror has the site of the other repository
	n.check(two, "")
	n.check(two, "has the site that is stored")
	n.reg.sites[mirror] = site(1)
	n.check(two, "not newer")
	three := site(3)
	n.reg.sites[stable] = three
	n.check(three, "")
}

// TestNoSite checks an image with keys and without a site: it pulls by the credential, or by the kernel command line.
// Without both its run is refused, because its kubelet would start without a site.
func TestNoSite(t *testing.T) {
	for name, give := range map[string]func(*node){
		"credential":   func(n *node) { n.giveCredential("prelet.site", stable+"\n") },
		"command line": func(n *node) { n.write("/proc/cmdline", "quiet prelet.site="+stable+"\n") },
	} {
		n := newNode(t, "")
		if err := os.Remove(filepath.Join(n.root, "usr/lib/prelet/site/00-image.hcl")); err != nil {
			t.Fatal(err)
		}
		load := func() string { return n.env().Load(machine.Where{Root: n.root}).Diags.Error() }
		if r, err := n.update(); err != nil || r.IsOn {
			t.Errorf("without a %s: update: got %+v, %v, want no delivery", name, r, err)
		}
		if got := load(); !strings.Contains(got, "There is no signed site") {
			t.Errorf("without a %s: load: got %s, want a refusal", name, got)
		}

		give(n)
		if got := load(); !strings.Contains(got, "There is no pulled site") {
			t.Errorf("%s, before an update: load: got %s, want that no site was pulled", name, got)
		}
		n.reg.sites[stable] = site(1)
		n.check(n.reg.sites[stable], "")
		first := n.reg.sites[stable]
		n.reg.sites[stable] = artifact("locals {}\n", nil)
		n.check(first, "is refused")
	}
}

// TestFolders checks lists in folders: one without a repository is for a folder, also where the node asks registries
// too; one with a repository is for a node that asks it, or that asks folders only.
func TestFolders(t *testing.T) {
	const folder = "oci-layout:/srv/sites:stable"
	of := func(name string) *registry.Artifact {
		return site(1, func(l *lang.SignedList) { l.Repository = name })
	}
	for _, row := range []struct{ others, repository, wantErr string }{
		{"", "", ""},
		{"", repository, ""},
		{`, "` + stable + `"`, "", ""},
		{`, "` + stable + `"`, repository, ""},
		{`, "` + mirror + `"`, repository, "for the repository " + repository + ", and this node asks mirror.example.com"},
	} {
		n := newNode(t, `from = ["`+folder+`"`+row.others+`]`)
		a := of(row.repository)
		n.reg.sites[folder] = a
		want := a
		if row.wantErr != "" {
			want = nil
		}
		n.check(want, row.wantErr)
	}
}

// TestMirrorOfDigest checks images that name a new digest at two places of which the first one is down: the second
// one delivers it, with and without keys, also with a lower counter. Another digest at the second place is not newer.
func TestMirrorOfDigest(t *testing.T) {
	const mirrored = "mirror.example.com/sites/gpu"
	for _, hasKeys := range []bool{false, true} {
		old, next, other := site(7), site(6), site(5)
		n := newNode(t, `from = ["`+repository+"@"+old.Digest+`"]`)
		if !hasKeys {
			n.removeKeys()
		}
		n.reg.sites[repository+"@"+old.Digest] = old
		n.check(old, "")

		write := func(second *registry.Artifact) {
			n.write("/usr/lib/prelet/site/00-image.hcl", fmt.Sprintf("delivery { from = [%q, %q] }\n",
				repository+"@"+next.Digest, mirrored+"@"+second.Digest))
			n.reg.sites = map[string]*registry.Artifact{mirrored + "@" + second.Digest: second}
		}
		write(other)
		n.check(old, "not newer")
		write(next)
		n.check(next, "")
	}
}

// TestWithoutKeys checks that an image without keys trusts a digest and no tag.
func TestWithoutKeys(t *testing.T) {
	a := artifact(fmt.Sprintf(locals, 1), nil)
	for from, wantErr := range map[string]string{
		"registry.example.com/sites/gpu@" + a.Digest: "",
		stable: "trusted by its digest only",
	} {
		n := newNode(t, `from = ["`+from+`"]`)
		n.removeKeys()
		n.reg.sites[from] = a
		want := a
		if wantErr != "" {
			want = nil
		}
		n.check(want, wantErr)
	}
}

// TestUnusable checks what a node does with a damaged record, with files that were changed or are gone, and with
// alone = true.
func TestUnusable(t *testing.T) {
	for name, damage := range map[string]func(n *node, a *registry.Artifact) error{
		"record": func(n *node, _ *registry.Artifact) error {
			return os.WriteFile(filepath.Join(n.state(), "sites/state.json"), []byte("{"), 0o600)
		},
		"no record": func(n *node, _ *registry.Artifact) error {
			return os.Remove(filepath.Join(n.state(), "sites/state.json"))
		},
		"file": func(n *node, a *registry.Artifact) error {
			name := filepath.Join(machine.PulledFolder(n.state(), a.Digest), "pulled.hcl")
			return os.WriteFile(name, []byte("locals {}\n"), 0o644)
		},
		"folder": func(n *node, a *registry.Artifact) error {
			return os.RemoveAll(machine.PulledFolder(n.state(), a.Digest))
		},
	} {
		for _, alone := range []bool{false, true} {
			n := newNode(t, fmt.Sprintf("from = [%q]\nalone = %t", stable, alone))
			a := site(1)
			n.reg.sites[stable] = a
			n.check(a, "")
			if err := damage(n, a); err != nil {
				t.Fatal(err)
			}

			l := n.env().Load(machine.Where{Root: n.root})
			if l.Diags.HasErrors() == alone {
				t.Errorf("%s damaged, alone %t: got %v, want an error unless alone", name, alone, l.Diags)
			}
			n.check(a, "") // an update heals it
		}
	}
}

// TestClash checks a stored site that a new image does not load any more: it counts as none, and the place is asked.
func TestClash(t *testing.T) {
	for _, alone := range []bool{false, true} {
		n := newNode(t, fmt.Sprintf("from = [%q]\nalone = %t", stable, alone))
		n.reg.sites[stable] = site(1)
		n.check(n.reg.sites[stable], "")
		n.write("/usr/lib/prelet/site/new.hcl", fmt.Sprintf(locals, 9))

		l := n.env().Load(machine.Where{Root: n.root})
		if l.Diags.HasErrors() == alone {
			t.Errorf("alone %t: got %v, want an error unless alone", alone, l.Diags)
		}
		n.reg.pulls = 0
		if _, err := n.update(); err == nil || !strings.Contains(err.Error(), "is refused") || n.reg.pulls != 1 {
			t.Errorf("alone %t: got %v after %d pulls, want the site refused after 1", alone, err, n.reg.pulls)
		}
	}
}

// TestUnreadableSource checks that a credential that cannot be read counts only on a node that pulls its site.
func TestUnreadableSource(t *testing.T) {
	for _, pulls := range []bool{false, true} {
		n := newNode(t, `from = ["`+stable+`"]`)
		if !pulls {
			n.write("/usr/lib/prelet/site/00-image.hcl", "locals {}\n")
		}
		n.giveCredential("prelet.site", mirror)
		if err := os.Chmod(filepath.Join(n.credentials, "prelet.site"), 0o444); err != nil {
			t.Fatal(err)
		}

		l := n.env().Load(machine.Where{Root: n.root})
		if got := l.Diags.Error(); strings.Contains(got, "other users can read") != pulls {
			t.Errorf("delivery %t: got %s, want the credential refused only with delivery", pulls, got)
		}
	}
}

// TestUnreadableSourceAfterPull checks that a node whose credential becomes unreadable keeps its site, also with
// alone = true, and that the look that could not read it is in the record.
func TestUnreadableSourceAfterPull(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"mode":   func(file string) error { return os.Chmod(file, 0o444) },
		"folder": func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"link":   func(file string) error { return errors.Join(os.Remove(file), os.Symlink("/dev/null", file)) },
	} {
		for _, block := range []string{"alone = true", ""} {
			n := newNode(t, block)
			n.giveCredential("prelet.site", stable)
			n.reg.sites[stable] = site(1)
			n.check(n.reg.sites[stable], "")
			file := filepath.Join(n.credentials, "prelet.site")
			if err := spoil(file); err != nil {
				t.Fatal(err)
			}
			n.check(n.reg.sites[stable], `credential "prelet.site"`)

			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
			osfile.Write(t, file, stable, 0o400)
			n.check(n.reg.sites[stable], "")
			if t.Failed() {
				t.Fatalf("%s, block %q", name, block)
			}
		}
	}
}

// TestFailureBeforeLook checks that what fails before a place is asked is in the record, as a look that failed.
func TestFailureBeforeLook(t *testing.T) {
	for name, spoil := range map[string]func(n *node){
		"no CA": func(n *node) {
			n.write("/usr/lib/prelet/site/00-image.hcl", "delivery {\n  from = [\""+stable+
				"\"]\n  ca_file = \"/none.pem\"\n}\n")
		},
		"passwords that are none": func(n *node) { n.giveCredential("prelet.registry", "{") },
		"delivery block":          func(n *node) { n.write("/usr/lib/prelet/site/00-image.hcl", "delivery {") },
	} {
		n := newNode(t, `from = ["`+stable+`"]`)
		first := site(1)
		n.reg.sites[stable] = first
		n.check(first, "")
		looked := must(machine.ReadDelivery(n.state())).LookedAt

		n.Registry = nil
		spoil(n)
		_, err := n.update()
		d, readErr := machine.ReadDelivery(n.state())
		if err == nil || readErr != nil || d.Failed == "" || d.Digest != first.Digest || !d.LookedAt.Equal(looked) ||
			d.Stale("") == "" {
			t.Errorf("%s: got %v and the record %+v, %v; want the failure in it, and the first site", name, err, d, readErr)
		}
	}
}

// TestCredentialOfOneUnit gives the credential to prelet-site.service only: its looks decide where the site comes from,
// also before one has succeeded, and a run without the credential does not report it missing.
func TestCredentialOfOneUnit(t *testing.T) {
	n := newNode(t, "")
	run := &node{t: t, root: n.root}
	sources := func() (machine.Sources, bool) {
		w := machine.Where{Root: n.root}
		s := must(machine.SiteSources(run.env().Credentials(w), w, schema.Delivery{}))

		return s, must(machine.ReadDelivery(n.state())).IsKept
	}
	n.giveCredential("prelet.site", stable)
	n.check(nil, "does not answer")
	l := run.env().Load(machine.Where{Root: n.root})
	if s, isKept := sources(); len(s.From) != 1 || isKept || !strings.Contains(l.Diags.Error(), "There is no pulled site") {
		t.Errorf("before a success: got %+v, missing %t, %v; want the place, and no site", s, isKept, l.Diags)
	}

	n.reg.sites[stable] = site(1)
	n.check(n.reg.sites[stable], "")
	if s, isKept := sources(); len(s.From) != 1 || isKept {
		t.Errorf("after a success: got %+v, missing %t; want the place", s, isKept)
	}
	n.credentials = ""
	n.check(n.reg.sites[stable], "")
	if s, isKept := sources(); len(s.From) != 1 || !isKept {
		t.Errorf("without the credential: got %+v, missing %t; want the place, and that it is missing", s, isKept)
	}
}

// TestMissingSource checks that a credential or a parameter which is missing keeps its value, until a person removes
// the record.
func TestMissingSource(t *testing.T) {
	for _, isCredential := range []bool{true, false} {
		n := newNode(t, `from = ["`+mirror+`"]`)
		n.reg.sites[mirror] = site(9, func(l *lang.SignedList) { l.Repository = "mirror.example.com/sites/gpu" })
		first, second := site(1), site(2)
		n.reg.sites[stable] = first
		if isCredential {
			n.giveCredential("prelet.site", stable+"\n")
		} else {
			n.write("/proc/cmdline", "quiet prelet.site="+stable+"\n")
		}
		n.check(first, "")

		n.credentials = ""
		n.write("/proc/cmdline", "quiet\n")
		n.reg.sites[stable] = second
		n.check(second, "")

		if err := os.Remove(filepath.Join(n.state(), machine.SitesFolder, machine.DeliveryFile)); err != nil {
			t.Fatal(err)
		}
		n.check(n.reg.sites[mirror], "")
	}
}

// TestFirstBoot checks that a boot without a site and without a generation tries again, and another update does not.
func TestFirstBoot(t *testing.T) {
	for _, inBoot := range []bool{false, true} {
		n := newNode(t, `from = ["`+stable+`"]`)
		n.InBoot = inBoot
		n.reg.sites[stable] = site(1)
		tries := 0
		n.reg.fails = func() error {
			if tries++; tries == 1 {
				return fault.Registry.Errorf("it starts")
			}
			return nil
		}

		_, err := n.update()
		if wantTries := map[bool]int{false: 1, true: 2}[inBoot]; tries != wantTries || (err == nil) != inBoot {
			t.Errorf("in a boot %t: got %d tries and %v, want %d", inBoot, tries, err, wantTries)
		}
	}
}

// TestLinkOut checks that an update below a root writes nothing outside of it.
func TestLinkOut(t *testing.T) {
	for _, link := range []string{machine.StateFolder, machine.StateFolder + "/" + machine.SitesFolder} {
		n := newNode(t, `from = ["`+stable+`"]`)
		n.reg.sites[stable] = site(1)
		outside, name := t.TempDir(), filepath.Join(n.root, link)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, name); err != nil {
			t.Fatal(err)
		}

		_, err := n.update()
		left, readErr := os.ReadDir(outside)
		if err == nil || len(left) > 0 || readErr != nil {
			t.Errorf("%s leads out: got %v and files %v, %v; want an error and none", link, err, left, readErr)
		}
	}
}

// TestPowerCut cuts the power after each step of storing a second site: the node has the first one or the second one,
// and can use it, and the next update stores the second.
func TestPowerCut(t *testing.T) {
	for cut := 0; ; cut++ {
		n := newNode(t, `from = ["`+stable+`"]`)
		first, second := site(1), site(2)
		n.reg.sites[stable] = first
		n.check(first, "")

		steps := 0
		n.reg.sites[stable] = second
		n.Step = func(name string) error {
			steps++
			if steps > cut {
				return fmt.Errorf("after %s: %w", name, errPowerCut)
			}
			return nil
		}
		_, err := n.update()
		n.Step = nil

		d, readErr := machine.ReadDelivery(n.state())
		isWhole := readErr == nil && (d.Digest == first.Digest || d.Digest == second.Digest)
		if l := n.env().Load(machine.Where{Root: n.root}); !isWhole || l.Diags.HasErrors() {
			t.Errorf("cut %v: got record %+v, %v and %v, want one of the sites", err, d, readErr, l.Diags)
		}
		n.check(second, "")
		if err == nil {
			if cut < 8 {
				t.Errorf("got %d steps, want all of storing", cut)
			}
			return
		}
	}
}

// TestTwoAtOnce runs updates of one node at once: each ends well, and the site is whole.
func TestTwoAtOnce(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	n.reg.sites[stable] = site(1)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			own := Config{Registry: &fakeRegistry{sites: n.reg.sites}, WaitClock: n.WaitClock}
			if _, err := Update(n.t.Context(), n.env(), n.root, own); err != nil {
				t.Errorf("update: got error %v, want none", err)
			}
		})
	}
	all.Wait()
	n.check(n.reg.sites[stable], "")
}

// TestCollect follows nodes through sites that they take, refuse, take again, and put in place, while the clock jumps:
// they keep the present one, the three before it, the one in place and the refused one, and nothing else.
func TestCollect(t *testing.T) {
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 0))
		n := newNode(t, `from = ["`+stable+`"]`)
		var taken []string // the last one last
		inPlace := ""
		for counter := range uint64(25) {
			next := site(counter + 1)
			refused := ""
			switch random.IntN(4) {
			case 0:
				next = site(counter+1, func(l *lang.SignedList) { l.Ring = "canary" })
				refused = next.Digest
			case 1:
				if len(taken) > 1 { // an operator goes back
					next = site(must(strconv.ParseUint(taken[random.IntN(len(taken))], 10, 64)))
				}
			}
			n.reg.sites[stable] = next
			_, err := n.update()
			if (err != nil) != (refused != "") {
				t.Fatalf("seed %d, update %d: got error %v", seed, counter, err)
			}
			d := must(machine.ReadDelivery(n.state()))
			if refused == "" {
				taken = slices.DeleteFunc(taken, func(c string) bool { return c == fmt.Sprint(d.Counter) })
				taken = append(taken, fmt.Sprint(d.Counter))
			}

			want := map[string]bool{}
			for _, c := range taken[max(0, len(taken)-1-maxKept):] {
				want[site(must(strconv.ParseUint(c, 10, 64))).Digest] = true
			}
			want[cmp.Or(inPlace, d.Digest)], want[cmp.Or(refused, d.Digest)] = true, true
			delete(want, "")
			got := n.digests()
			if !maps.Equal(got, want) && len(taken) > 0 {
				t.Fatalf("seed %d, update %d: got the sites %v, want %v", seed, counter, got, want)
			}

			if random.IntN(5) == 0 && d.Digest != "" {
				inPlace = d.Digest
				n.write(machine.RunDir+"/"+report.StatusFile, fmt.Sprintf(
					`{"format_version":1,"state":"ok","delivery":{"used":%q}}`, inPlace))
			}
			for digest := range got { // the clock was wrong while some were stored
				at := time.Unix(random.Int64N(1<<31), 0)
				if err := os.Chtimes(machine.PulledFolder(n.state(), digest), at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// digests returns the digests of the stored sites.
func (n *node) digests() map[string]bool {
	out := map[string]bool{}
	for _, e := range must(os.ReadDir(filepath.Join(n.state(), machine.SitesFolder))) {
		if sum, isSite := strings.CutPrefix(e.Name(), "sha256-"); isSite {
			out["sha256:"+sum] = true
		}
	}

	return out
}

// stored returns the stored sites, without the record, which each update replaces.
func (n *node) stored() map[string]osfile.Inode {
	all := must(osfile.Look(filepath.Join(n.state(), machine.SitesFolder)))
	delete(all, "")
	delete(all, "/"+machine.DeliveryFile)

	return all
}

// TestHostileRegistries lets a node with a site ask a registry of each hostile manner: the update ends in time with the
// right code, the message has no secret and says which site is kept, that one is untouched and usable, nothing is left
// behind, and the next site is stored.
func TestHostileRegistries(t *testing.T) {
	t.Parallel()
	manners := ociserver.Manners()
	t.Logf("cases: %d", len(manners))
	for _, m := range manners {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { updateHostile(t, m) })
		})
	}
}

// updateHostile asks a registry with the clock of testing/synctest.
func updateHostile(t *testing.T, m ociserver.Manner) {
	s := m.Start()
	defer s.Close()
	place := s.Host + "/" + ociserver.Reference
	n := newNode(t, "from = [\""+place+"\"]\nca_file = \"/etc/ca.pem\"")
	n.write("/etc/ca.pem", string(s.CA))
	isThere := func(l *lang.SignedList) { l.Repository = must(registry.Parse(place)).Name() }
	first, second := site(1, isThere), site(2, isThere)
	n.reg.sites[place] = first
	n.check(first, "")
	before := n.stored()

	client := must(newClient(n.env(), machine.Where{Root: n.root}, schema.Delivery{CAFile: "/etc/ca.pem"}))
	client.Dial, client.Patience, client.Total = s.Dial, time.Second, 10*time.Second
	client.Credential = func(context.Context, string, string) (string, string, error) {
		return "u", "canary-password", nil
	}
	n.Registry = client
	began := time.Now()
	_, err := n.update()
	if took := time.Since(began); took > time.Minute || fault.CodeOf(err) != m.Code {
		t.Errorf("got %v (%s) after %s, want the code %s within a minute", err, fault.CodeOf(err), took, m.Code)
	}
	record := string(must(os.ReadFile(filepath.Join(n.state(), machine.SitesFolder, machine.DeliveryFile))))
	if text := fmt.Sprint(err); !strings.Contains(text, strings.TrimPrefix(m.Text, "pull ")) ||
		!strings.Contains(text, "the node keeps the site "+first.Digest) ||
		strings.Contains(text+record, "canary") || s.Leaked.Load() {
		t.Errorf("got %q and the record %s; want %q, the site that is kept, and no secret", text, record, m.Text)
	}

	if after := n.stored(); !reflect.DeepEqual(after, before) {
		t.Errorf("got the files %v, want those from before: %v", after, before)
	}
	l := n.env().Load(machine.Where{Root: n.root})
	d, readErr := machine.ReadDelivery(n.state())
	if l.Diags.HasErrors() || l.Delivery.Used != first.Digest || readErr != nil || d.Failed == "" {
		t.Errorf("got %v, the record %+v and %v; want a site that can be used", l.Diags, d, readErr)
	}

	n.Registry = n.reg
	n.reg.sites[place] = second
	n.check(second, "")
}

// TestFullDisk checks that a node whose disk is full keeps its site, and stores the new one once there is space.
func TestFullDisk(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	first, second := site(1), site(2)
	n.reg.sites[stable] = first
	n.check(first, "")
	n.reg.sites[stable] = second
	n.Step = func(name string) error {
		if strings.HasPrefix(name, "write pulled") {
			return unix.ENOSPC
		}
		return nil
	}
	n.check(first, "no space left")
	n.Step = nil
	n.check(second, "")
}

// TestClock checks that a certificate which is not valid yet waits until the clock is set, and that one which has
// expired does not.
func TestClock(t *testing.T) {
	n := newNode(t, `from = ["`+stable+`"]`)
	n.reg.sites[stable] = site(1)
	isSet := false
	cert := &x509.Certificate{NotBefore: time.Now().Add(time.Hour), NotAfter: time.Now().Add(2 * time.Hour)}
	n.reg.fails = func() error {
		if isSet {
			return nil
		}
		return &fault.Fault{Code: fault.Registry, Err: x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}}
	}
	n.WaitClock = func(context.Context) error { isSet = true; return nil }
	n.check(n.reg.sites[stable], "")

	isSet = false
	cert.NotBefore, cert.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	n.check(n.reg.sites[stable], "expired")
	if isSet {
		t.Error("an expired certificate: got a wait for the clock, want none")
	}
}
