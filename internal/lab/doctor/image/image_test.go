package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/osfile"
	cases "github.com/prelet/prelet/internal/testing/table"
)

const (
	token     = "abcdef.0123456789abcdef"
	recording = `{"format":1,"prelet":"0.1.0","site":[],"answers":[]}`
)

// pack returns a text in the form of gzip.
func pack(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err) // a buffer takes everything
	}

	return b.String()
}

// packFile returns a .tar.gz with one file.
func packFile(name, text string) string {
	var b strings.Builder
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}

	return pack(b.String())
}

// used returns the files of a machine that has joined, by path; "-> TARGET" is a link.
func used() map[string]string {
	return map[string]string{
		"/etc/kubernetes/kubelet.conf":                       "kind: Config\n",
		"/var/lib/kubelet/pki/kubelet-client-2026-01-01.pem": "key",
		"/var/lib/kubelet/pki/kubelet-client-current.pem":    "-> /var/lib/kubelet/pki/kubelet-client-2026-01-01.pem",
		"/var/lib/kubelet/cpu_manager_state":                 "{}",
		"/etc/kubernetes/bootstrap-kubelet.conf":             "token: " + token + "\n",
		"/etc/kubernetes/pki/ca.key":                         "key",
		"/etc/credstore/bootstrap-token":                     token,
		"/etc/credstore/prelet.var.password":                 "x",
		"/etc/machine-id":                                    "0123456789abcdef0123456789abcdef\n",
		"/etc/ssh/ssh_host_rsa_key":                          "key",
		"/etc/ssh/ssh_host_rsa_key.pub":                      "key",
		"/var/lib/systemd/random-seed":                       "seed",
		"/var/lib/systemd/credential.secret":                 "key",
		"/var/lib/prelet/generations/1/manifest.json":        "{}",
		"/var/lib/prelet/journal.json":                       "{}",
		"/var/lib/dhcp/dhclient.eth0.leases":                 "lease",
		"/var/lib/cloud/instances/i-1/user-data.txt":         "x",
		"/var/lib/cloud/instance":                            "-> instances/i-1",
		"/root/node.prelet":                                  recording,
		"/root/node.prelet.gz":                               pack(recording),
		"/tmp/node.tar.gz":                                   packFile("prelet-bundle/README.txt", "x"),
		"/root/.kube/config":                                 "token: " + token + "\n",
		"/home/someone/.kube/config":                         "token: " + token + "\n",
		"/etc/cni/net.d/calico-kubeconfig":                   "token: " + token + "\n",
		"/etc/kubernetes/admin.conf.bak":                     "token: " + token + "\n",
		"/etc/kubernetes/tmp/kubeadm-backup-1/ca.key":        "key",
		"/usr/local/lib/credstore/bootstrap-token":           token,
		"/usr/etc/ssh/ssh_host_rsa_key":                      "key",
		"/usr/etc/kubernetes/kubelet.conf":                   "kind: Config\n",
		"/var/lib/dhcpcd/duid":                               "00:01",
		"/etc/nvme/hostnqn":                                  "nqn.2014-08.org.nvmexpress:uuid:1",
		"/etc/openvswitch/system-id.conf":                    "1",
		"/var/lib/cni/networks/cbr0/10.0.0.5":                "pod",
		"/var/lib/kubelet/image_manager/pulled/sha256-1":     "{}",
		"/etc/lvm/devices/system.devices":                    "IDTYPE=devname",
	}
}

// kept returns files that an image may contain.
func kept() map[string]string {
	return map[string]string{
		"/usr/bin/prelet":                              "program",
		"/etc/kubernetes/pki/ca.crt":                   "certificate",
		"/etc/kubernetes/exec.conf":                    "kind: Config\n",
		"/etc/ssh/sshd_config":                         "Port 22\n",
		"/etc/credstore/other-service":                 "x",
		"/etc/credstore/prelet.var.zone":               "az1",
		"/etc/prelet/site.hcl":                         "stage \"label\" \"x\" {}\n",
		"/var/lib/prelet/kubelet.json":                 "{}",
		"/var/lib/kubelet/config.yaml":                 "kind: KubeletConfiguration\n",
		"/var/lib/dbus/machine-id":                     "-> /etc/machine-id",
		"/var/lib/cloud/seed/nocloud/x":                "x",
		"/root/notes.tar.gz":                           "not a bundle",
		"/etc/iscsi/initiatorname.iscsi":               "GenerateName=yes\n",
		"/etc/cni/net.d/10-x.conflist":                 "{}",
		"/etc/hostname":                                "localhost\n",
		"/etc/systemd/system/prelet.service.d/10.conf": "[Service]\nSetCredential=prelet.var.zone:az1\n",
	}
}

// newImage makes a root folder with files.
func newImage(t *testing.T, files ...map[string]string) nodefile.Root {
	t.Helper()
	root := t.TempDir()
	for _, some := range files {
		osfile.WriteTree(t, root, some)
	}

	return nodefile.Root(root)
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	osfile.WriteTree(t, root, map[string]string{name: text})
}

func find(root nodefile.Root) Found {
	return Find(Subject{
		Root:        root,
		Now:         time.Now,
		IsPublic:    func(name string) bool { return name == "zone" },
		SiteFolders: []string{"/etc/prelet"},
	})
}

// list returns the files and links below a root, by path.
func list(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(file, root)
		switch {
		case err != nil:
			return err
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(file)
			out[name] = "-> " + to
			return err
		case d.Type().IsRegular():
			text, err := os.ReadFile(file)
			out[name] = string(text)
			return err
		}

		return nil
	})
	must(t, err)

	return out
}

// sealed returns the files of newImage after Remove.
func sealed() map[string]string {
	out := kept()
	out["/etc/machine-id"] = ""

	return out
}

// Remove leaves exactly the files that an image may contain, and a second Find returns nothing.
func TestRemove(t *testing.T) {
	root := newImage(t, used(), kept())
	found := find(root)
	for _, l := range found.Leftovers {
		if l.Why == "" || l.Check == "" {
			t.Errorf("%s: got check %q, why %q; want both", l.Path, l.Check, l.Why)
		}
	}
	if _, err := Remove(t.Context(), root, found.Leftovers); err != nil {
		t.Fatalf("Remove: got %v; want no error", err)
	}
	if diff := cmp.Diff(sealed(), list(t, string(root))); diff != "" {
		t.Errorf("files after Remove (-want +got):\n%s", diff)
	}
	if again := find(root); len(again.Leftovers) > 0 || len(again.Unread) > 0 {
		t.Errorf("second Find: got %+v; want nothing", again)
	}
}

// A run that ends after any number of steps, as by a power cut, is completed by the next one.
func TestInterrupted(t *testing.T) {
	steps := len(find(newImage(t, used(), kept())).Leftovers)
	if steps < 15 {
		t.Fatalf("got %d leftovers; want at least 15", steps)
	}
	for n := range steps {
		root := newImage(t, used(), kept())
		ctx, stop := context.WithCancel(t.Context())
		if _, err := Remove(ctx, root, find(root).Leftovers[:n]); err != nil {
			t.Fatal(err)
		}
		stop()
		rest := find(root).Leftovers
		if _, err := Remove(ctx, root, rest); fault.CodeOf(err) != fault.Interrupted {
			t.Fatalf("stopped after %d steps: got %v; want %s", n, err, fault.Interrupted)
		}
		if _, err := Remove(t.Context(), root, rest); err != nil {
			t.Fatalf("after %d steps: got %v; want no error", n, err)
		}
		if diff := cmp.Diff(sealed(), list(t, string(root))); diff != "" {
			t.Errorf("after %d steps (-want +got):\n%s", n, diff)
		}
	}
}

// Links of an image are followed inside of the image: what is outside stays, whatever they name.
func TestLinksOutside(t *testing.T) {
	outside := t.TempDir()
	for name, text := range used() {
		if !strings.HasPrefix(text, "-> ") {
			put(t, outside, name, text)
		}
	}
	before := list(t, outside)
	links := map[string]string{}
	for _, dir := range []string{"/etc/kubernetes", "/etc/ssh", "/etc/credstore", "/var/lib/prelet", "/var/lib/kubelet",
		"/var/lib/systemd", "/var/lib/cloud", "/root", "/etc/machine-id"} {
		links[dir] = "-> " + outside + dir
	}
	climbing := map[string]string{}
	for dir, to := range links {
		climbing[dir] = "-> " + strings.Repeat("../", 40) + strings.TrimPrefix(to, "-> /")
	}

	for name, files := range map[string]map[string]string{"absolute": links, "climbing": climbing} {
		t.Run(name, func(t *testing.T) {
			root := newImage(t, files)
			if _, err := Remove(t.Context(), root, find(root).Leftovers); err != nil {
				t.Errorf("got %v; want no error", err)
			}
			if diff := cmp.Diff(before, list(t, outside)); diff != "" {
				t.Errorf("files outside of the image changed (-want +got):\n%s", diff)
			}
		})
	}
}

// A link that was made after Find does not lead Remove outside.
func TestLinkMadeLater(t *testing.T) {
	root := newImage(t, used())
	outside := t.TempDir()
	put(t, outside, "/ssh_host_rsa_key", "key")
	found := find(root).Leftovers
	dir := root.Path("/etc/ssh")
	must(t, errors.Join(os.RemoveAll(dir), os.Symlink(outside, dir)))
	_, err := Remove(t.Context(), root, found)
	if fault.CodeOf(err) != fault.CannotWrite {
		t.Errorf("got %v; want %s", err, fault.CannotWrite)
	}
	if got := list(t, outside); len(got) != 1 {
		t.Errorf("files outside: got %q; want ssh_host_rsa_key", got)
	}
}

// A folder of the image that is a link inside of it is cleaned where it is.
func TestLinksInside(t *testing.T) {
	root := newImage(t, map[string]string{
		"/var/lib/prelet":              "-> /data/prelet",
		"/data/prelet/journal.json":    "{}",
		"/etc/kubernetes/kubelet.conf": "-> ../../data/kubelet.conf",
		"/data/kubelet.conf":           "kind: Config\n",
		"/etc/machine-id":              "-> /data/machine-id",
		"/data/machine-id":             "0123456789abcdef0123456789abcdef\n",
	})
	if _, err := Remove(t.Context(), root, find(root).Leftovers); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"/var/lib/prelet":  "-> /data/prelet",
		"/etc/machine-id":  "-> /data/machine-id",
		"/data/machine-id": "",
	}
	if diff := cmp.Diff(want, list(t, string(root))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A secret in the site is reported and never edited.
func TestSiteSecret(t *testing.T) {
	root := newImage(t, map[string]string{"/etc/prelet/site.hcl": "# " + token + "\n"})
	found := find(root).Leftovers
	if len(found) != 1 || found[0].Action != ByHand || found[0].Do == "" || strings.Contains(found[0].Why, token) {
		t.Fatalf("got %+v; want one leftover to be removed by hand, without the token", found)
	}
	if done, err := Remove(t.Context(), root, found); err != nil || len(done) > 0 {
		t.Errorf("Remove: got %v, %v; want nothing removed", done, err)
	}
}

// What a person must change is not changed, and prevents sealing; what is only reported does not.
func TestByHand(t *testing.T) {
	for name, c := range cases.YAML[map[string]struct {
		File, Text string
		Want       Action
	}](t, `
initiator:
  file: /etc/iscsi/initiatorname.iscsi
  text: |
    # a name
    InitiatorName=iqn.1993-08.org.debian:01:1
  want: by hand
database: {file: /var/lib/etcd/member/snap/db, text: x, want: by hand}
credential:
  file: /etc/systemd/system/prelet.service.d/x.conf
  text: "SetCredential=bootstrap-token:x\n"
  want: by hand
token:
  file: /etc/systemd/system/kubelet.service.d/x.conf
  text: "Environment=T=abcdef.0123456789abcdef\n"
  want: by hand
host name: {file: /etc/hostname, text: "node17\n", want: keep}
`) {
		t.Run(name, func(t *testing.T) {
			root := newImage(t, map[string]string{c.File: c.Text})
			found := find(root).Leftovers
			if len(found) != 1 || found[0].Action != c.Want || found[0].Do == "" || found[0].Why == "" {
				t.Fatalf("%s: got %+v; want one leftover with action %q", c.File, found, c.Want)
			}
			if done, err := Remove(t.Context(), root, found); err != nil || len(done) > 0 {
				t.Errorf("Remove: got %v, %v; want nothing removed", done, err)
			}
		})
	}
}

// A kubeconfig with a key or a token is found by what it is, by whatever name and wherever tools leave it; one without is
// not.
func TestKubeconfig(t *testing.T) {
	const user = "apiVersion: v1\nkind: Config\nusers:\n- name: x\n  user: {%s}\n"
	for _, place := range []string{"/root/admin.conf", "/root/k8s/prod", "/home/me/a.yaml", "/home/me/.kube/old/config",
		"/tmp/config", "/var/tmp/x/config", "/config", "/etc/admin.conf", "/etc/agent/conf.d/cluster", "/opt/tool/config",
		"/srv/kubeconfig", "/var/lib/agent/kube/config", "/usr/local/etc/kubeconfig", "/usr/share/a/b/c/d/e",
		"/data/clusters/x", "/home/me/a/b/c/d/e/f", "/var/backups/k8s/2026/x", "/boot/config"} {
		for credential, want := range map[string]int{
			`token: "x"`: 1, "client-key-data: eA==": 1, "password: x": 1, "client-key: /root/x.key": 0, "": 0,
		} {
			root := newImage(t, map[string]string{place: fmt.Sprintf(user, credential)})
			if found := find(root).Leftovers; len(found) != want || want > 0 && found[0].Check != "secrets" {
				t.Errorf("%s with %q: got %+v; want %d leftovers of secrets", place, credential, found, want)
			}
		}
	}
}

// A file that cannot be examined is reported under its check: it may be anything.
func TestTooLarge(t *testing.T) {
	for check, file := range map[string]string{
		"identity": "/etc/machine-id",
		"secrets":  "/etc/kubernetes/admin.conf",
		"state":    "/root/node.prelet",
	} {
		root := newImage(t, map[string]string{file: ""})
		must(t, os.Truncate(root.Path(file), maxText+1))
		found := find(root)
		if len(found.Unread) != 1 || found.Unread[0].Check != check {
			t.Errorf("%s: got unread %+v; want one of %s", file, found.Unread, check)
		}
	}
}

// A file with the name of a recording that cannot be decoded is reported, and not removed: it may be damaged, or of a
// newer prelet. Another archive than a bundle may stay.
func TestDamagedRecording(t *testing.T) {
	for name, text := range map[string]string{
		"/root/a.prelet":       recording[:20],
		"/tmp/a.prelet":        `{"format":9}`,
		"/tmp/a.prelet.gz":     pack(recording)[:20],
		"/home/x/b.prelet":     "notes",
		"/etc/prelet/a.prelet": "",
	} {
		root := newImage(t, map[string]string{name: text})
		found := find(root)
		if len(found.Leftovers) > 0 || len(found.Unread) != 1 || !strings.Contains(found.Unread[0].Err.Error(), name) {
			t.Errorf("%s: got %+v; want nothing to remove, and one unread file with its name", name, found)
		}
	}
	root := newImage(t, map[string]string{"/root/cni.tar.gz": packFile("bin/bridge", "x"), "/tmp/x.tar.gz": pack("x")})
	if found := find(root); len(found.Leftovers) > 0 || len(found.Unread) > 0 {
		t.Errorf("other archives: got %+v; want nothing", found)
	}
}

// The other names of a file keep its content.
func TestHardLinks(t *testing.T) {
	root := newImage(t, map[string]string{"/etc/machine-id": "0123456789abcdef0123456789abcdef\n"})
	other := filepath.Join(t.TempDir(), "machine-id")
	err := errors.Join(os.Link(root.Path("/etc/machine-id"), other), os.Chmod(other, 0o444))
	must(t, err)
	if _, err := Remove(t.Context(), root, find(root).Leftovers); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"/etc/machine-id": ""}
	if diff := cmp.Diff(want, list(t, string(root))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	outside, _ := os.ReadFile(other)
	st, err := os.Stat(root.Path("/etc/machine-id"))
	if len(outside) == 0 || err != nil || st.Mode().Perm() != 0o444 {
		t.Errorf("got %d bytes in the other file, mode %v, %v; want its content, and mode 0444", len(outside), st.Mode(), err)
	}
}

// A folder that this user may not read is reported: it may contain anything.
func TestUnread(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every folder")
	}
	root := newImage(t, used())
	must(t, os.Chmod(root.Path("/etc/ssh"), 0))
	t.Cleanup(func() { _ = os.Chmod(root.Path("/etc/ssh"), 0o755) })
	if found := find(root); len(found.Unread) == 0 {
		t.Error("got no unread folder; want /etc/ssh")
	}
}

// All patterns are well formed, which search.match relies on.
func TestPatterns(t *testing.T) {
	for _, r := range (Subject{SiteFolders: []string{"/etc/prelet"}}).rules() {
		if _, err := path.Match(r.pattern, ""); err != nil || !path.IsAbs(r.pattern) {
			t.Errorf("pattern %q: got %v; want an absolute, well-formed pattern", r.pattern, err)
		}
		if !slices.Contains([]string{"identity", "secrets", "state"}, r.check) || r.action == "" || r.why == "" && r.describe == nil {
			t.Errorf("rule of %s: got %+v; want a check, an action and a reason", r.pattern, r)
		}
	}
}

// The reference lists every place.
func TestReference(t *testing.T) {
	for _, r := range (Subject{}).rules() {
		place := strings.TrimSuffix(r.pattern, "/*")
		if !strings.Contains(Page(), "`"+r.pattern+"`") && !strings.Contains(Page(), "`"+place+"`") {
			t.Errorf("Page: got no %s; want it in the list", r.pattern)
		}
	}
	for _, folder := range notSearched {
		if !strings.Contains(Page(), "`"+folder+"`") {
			t.Errorf("Page: got no %s; want what is left out", folder)
		}
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
