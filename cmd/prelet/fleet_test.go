package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testFleet is a folder of recordings.
type testFleet struct {
	t   *testing.T
	dir string
}

func newTestFleet(t *testing.T) testFleet {
	t.Helper()
	return testFleet{t: t, dir: t.TempDir()}
}

// put adds a recording of testdata, with some texts in it replaced: old and new in turns.
func (f testFleet) put(name, from string, replace ...string) {
	f.t.Helper()
	b, err := os.ReadFile("../../testdata/recordings/v1/" + from + ".prelet")
	if err != nil {
		f.t.Fatal(err)
	}
	text := strings.NewReplacer(replace...).Replace(string(b))
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f testFleet) plan(args ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"plan", "--from", f.dir}, args...), &stdout, &stderr)
	return code, stdout.String(), strings.ReplaceAll(stderr.String(), f.dir, "FLEET")
}

func wantContains(t *testing.T, what, got string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !mentions(got, want) {
			t.Errorf("%s: got\n%s\nwant it to contain %q", what, got, want)
		}
	}
}

// TestHeadingOfRecording: the name of a recording comes from others, and must not control the terminal.
func TestHeadingOfRecording(t *testing.T) {
	t.Parallel()

	f := newTestFleet(t)
	f.put("a\x1b[2J.prelet", "gpu")

	for _, args := range [][]string{{"--full"}, {"--full", "-o", "markdown"}} {
		if _, out, _ := f.plan(args...); strings.Contains(out, "\x1b[2J") || !strings.Contains(out, `a\x1b[2J.prelet`) {
			t.Errorf("plan %q: got\n%q\nwant a\\x1b[2J.prelet without the character itself", args, out)
		}
	}
}

// readSite returns the site inside a recording of testdata, with texts in it replaced: old and new in turns.
func readSite(t *testing.T, from string, replace ...string) string {
	t.Helper()
	b, err := os.ReadFile("../../testdata/recordings/v1/" + from + ".prelet")
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		Site []struct{ Name, Text string }
	}
	if err := json.Unmarshal(b, &header); err != nil {
		t.Fatal(err)
	}
	text := header.Site[0].Text
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the site of %s: got no %q in it, want one", from, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

// putGPUSite writes a site for the recording gpu.
func putGPUSite(t *testing.T, dir, text string) {
	t.Helper()
	for name, text := range map[string]string{"site.hcl": text, "site.prelet.vars": "zone = \"az1-r07\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Machines that differ only in their own values are in one group, and the report has names in place of the values. A
// machine that differs in something else is in another group.
func TestFleetOwnValues(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.put("a.prelet", "gpu")
	f.put("b.prelet", "gpu", "EXAMPLE-0001", "EXAMPLE-0002", "02:00:5e:00:53:02", "02:00:5e:00:53:99",
		"4c4c4544-0000-1000-8000-000000000001", "4c4c4544-0000-1000-8000-000000000002")
	f.put("c.prelet", "gpu", `"version": "v1.36.3"`, `"version": "v1.35.3"`)
	f.put("d.prelet", "gpu", `"total_bytes": `, `"total_bytes": 1`)
	site := t.TempDir()
	putGPUSite(t, site, readSite(t, "gpu", `"accelerator" `, `"serial" = local.hw.product.serial
    "mac"    = replace(local.hw.interfaces["ens5f0"].mac, ":", "")
    "accelerator" `))

	code, out, errText := f.plan("--config", site, "--names")
	if code != 0 {
		t.Fatalf("plan: got exit %d, %s%s\nwant 0", code, out, errText)
	}
	wantContains(t, "plan", out, "label   serial = {serial number}", "mac = {digits of the MAC address of ens5f0}")
	first, _, _ := strings.Cut(out, "\n\n")
	wantContains(t, "the first group", first, "3 nodes: ", "a.prelet", "b.prelet", "c.prelet")
	wantContains(t, "plan", out, "4 recordings", "2 groups")
}

// A new file is a change of the site, although the recordings were never asked for its state. Where the new site asks for
// an answer that decides the rest, nothing is reported as deleted.
func TestFleetAgainstUnread(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.put("a.prelet", "gpu", `"02:00:5e:00:53:02"`, `""`) // a damaged address, too
	old, added, moved := t.TempDir(), t.TempDir(), t.TempDir()
	putGPUSite(t, old, readSite(t, "gpu"))
	putGPUSite(t, added, readSite(t, "gpu", "stage \"write\" \"kubelet\" {",
		"stage \"write\" \"kubelet\" {\n  file \"x\" {\n    path = \"/etc/sysctl.d/x.conf\"\n    content = \"x\"\n  }"))
	putGPUSite(t, moved, readSite(t, "gpu", "config_map = \"kube-system/kubelet-config\"", "config_map = \"kube-system/other\""))

	_, out, errText := f.plan("--config", added, "--against", old)
	if strings.Contains(out, "not complete") || errText != "" {
		t.Errorf("with a new file: got %s%s\nwant a complete comparison", out, errText)
	}
	wantContains(t, "with a new file", out, "+  file  /etc/sysctl.d/x.conf  create", "1 would change")

	_, out, errText = f.plan("--config", moved, "--against", old)
	if strings.Contains(out, "delete") || strings.Contains(out, "\n  -") || errText != "" {
		t.Errorf("with another ConfigMap: got %s%s\nwant no deletion", out, errText)
	}
	wantContains(t, "with another ConfigMap", out, "1 not complete")
}

// --against compares two sites over the same machines, whatever is on their disks.
func TestFleetAgainst(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	f.put("a.prelet", "gpu")
	f.put("b.prelet", "gpu")
	old, new := t.TempDir(), t.TempDir()
	putGPUSite(t, old, readSite(t, "gpu"))
	putGPUSite(t, new, readSite(t, "gpu", "max_pods = 64", "max_pods = 110", `gpu=true`, `gpu=yes`, "* 4096", "* 8192",
		`"gpu.example.com/count" `, `"gpu.example.com/number" `, "local.hw.detectors.nvidia.attributes.mig_capable", "1"))

	code, out, errText := f.plan("--config", old, "--against", old, "--detailed-exitcode")
	if code != 0 || !strings.Contains(out, "2 nodes: no change") {
		t.Errorf("a site against itself: got exit %d, %s%s\nwant 0 and no change", code, out, errText)
	}

	code, out, errText = f.plan("--config", new, "--against", old, "--detailed-exitcode")
	if code != 2 || errText != "" {
		t.Errorf("against the old site: got exit %d, %s\nwant 2", code, errText)
	}
	wantContains(t, "against the old site", out,
		"-  label   gpu.example.com/count, was ", "+  label   gpu.example.com/number = ",
		"~  taint   nvidia.com/gpu:NoSchedule: true → yes", "config  maxPods: 64 → 110",
		"file    /etc/sysctl.d/90-hugepages.conf  update", "-vm.nr_hugepages = ", "━━ 2 recordings: 2 would change")

	_, out, _ = f.plan("--config", new, "--against", old, "-o", "markdown")
	wantContains(t, "as Markdown", out, "| 2 | ", "\n- config maxPods = 64\n+ config maxPods = 110\n", "```diff\n",
		"<details><summary>2 nodes: ")

	_, out, _ = f.plan("--config", new, "--against", old, "-o", "json")
	var report struct {
		Against string
		Changed int
		Groups  []struct {
			Changes  []struct{ Kind, Name, Action, From, To string }
			Machines []struct{ Source string }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Changed != 2 || report.Against != old ||
		len(report.Groups) != 1 || len(report.Groups[0].Machines) != 2 {
		t.Errorf("as JSON: got %+v, %v; want one group of 2 machines against %s", report, err, old)
	}

	// One machine is compared in the same way.
	var stdout, stderr bytes.Buffer
	code = run([]string{"plan", "--from", filepath.Join(f.dir, "a.prelet"), "--config", new, "--against", old},
		&stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String(), "config  maxPods: 64 → 110") {
		t.Errorf("one machine: got exit %d, %s%s\nwant 0 and the change of maxPods", code, &stdout, &stderr)
	}

	// A site that fails on every machine fails, also if the older one does not; the reason is named.
	putGPUSite(t, new, readSite(t, "gpu", "max_pods = 64", "max_pods = -1"))
	code, out, _ = f.plan("--config", new, "--against", old)
	if code != 10 || !mentions(out, "2 nodes: failed: ") || !mentions(out, "site.hcl:53: Wrong value") {
		t.Errorf("a site that fails: got exit %d,\n%s\nwant 10 and the place", code, out)
	}
	code, _, errText = f.plan("--config", old, "--against", filepath.Dir(new)+"/none")
	wantContains(t, "a missing site", errText, "none: no such file or folder, and as a revision of git: `git -C ")
	if code != 64 {
		t.Errorf("a missing site: got exit %d, want 64", code)
	}
}

// --against REVISION reads the site's files at a commit, not the work tree, without filters.
func TestFleetAgainstRevision(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	f := newTestFleet(t)
	f.put("a.prelet", "gpu")
	repository := t.TempDir()
	git := func(args ...string) {
		c := exec.Command("git", append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	site := filepath.Join(repository, "sites", "one")
	if err := os.MkdirAll(filepath.Join(site, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "-b", "main")
	putGPUSite(t, site, readSite(t, "gpu"))
	for name, text := range map[string]string{".gitattributes": "* export-ignore\n", "below/x.hcl": "not read"} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git("add", "-A")
	git("commit", "-q", "-m", "first")
	putGPUSite(t, site, readSite(t, "gpu", "max_pods = 64", "max_pods = 110"))

	code, out, errText := f.plan("--config", site, "--against", "HEAD")
	if code != 0 || !strings.Contains(out, "config  maxPods: 64 → 110") {
		t.Errorf("a folder: got exit %d, %s%s\nwant 0 and the change of maxPods", code, out, errText)
	}
	files := []string{"--config", filepath.Join(site, "site.hcl"), "--config", filepath.Join(site, "site.prelet.vars")}
	code, out, errText = f.plan(append(files, "--against", "main")...)
	if code != 0 || !strings.Contains(out, "config  maxPods: 64 → 110") {
		t.Errorf("two files: got exit %d, %s%s\nwant 0 and the change of maxPods", code, out, errText)
	}

	// A folder of the revision's name, and a layer that the revision does not have.
	t.Chdir(t.TempDir())
	if err := os.Mkdir("main", 0o755); err != nil {
		t.Fatal(err)
	}
	layer := filepath.Join(repository, "new.hcl")
	text := "stage \"label\" \"new\" {\n  labels = { new = \"layer\" }\n}\n"
	if err := os.WriteFile(layer, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errText = f.plan("--config", site, "--config", layer, "--against", "git:main")
	if code != 0 || !strings.Contains(out, "label   new = layer") {
		t.Errorf("a new layer: got exit %d, %s%s\nwant 0 and the new label", code, out, errText)
	}
	if want := layer + " has no file at this revision"; !strings.Contains(errText, want) {
		t.Errorf("a new layer: got on stderr %q, want %q", errText, want)
	}

	for name, c := range map[string]struct {
		revision string
		want     string
	}{
		"an unknown revision": {"HEAD~9", "`git -C " + site + " ls-tree -z --long HEAD~9 -- ./`: fatal: "},
		"an empty folder":     {"empty", "has no file at this revision"},
		"a marked revision":   {"git:none", "--against git:none: `git -C " + site},
		"no revision":         {"git:", "--against git:: the revision is missing"},
	} {
		if c.revision == "empty" {
			git("rm", "-rfq", "--cached", ".")
			git("commit", "-q", "-m", "empty", "--allow-empty")
			git("tag", "empty")
		}
		code, _, errText := f.plan("--config", site, "--against", c.revision)
		if code != 64 || !strings.Contains(errText, c.want) {
			t.Errorf("%s: got exit %d, %s\nwant 64 and %q", name, code, errText, c.want)
		}
	}
}
