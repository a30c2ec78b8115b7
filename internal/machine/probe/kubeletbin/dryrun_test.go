package kubeletbin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// klog is an error as a kubelet prints it.
const klog = `E1126 22:30:34.793553 31808 run.go:72] "command failed" err=`

// dryRun runs a script in place of a kubelet. $HERE is its folder, which it may read.
func dryRun(t *testing.T, script string, words ...string) (verdict Verdict, out string, err error) {
	t.Helper()

	return dryRunWithin(t, 2*time.Minute, script, words...)
}

// dryRunWithin is dryRun with a limit, half of which is for one start.
func dryRunWithin(t *testing.T, limit time.Duration, script string, words ...string) (
	verdict Verdict, out string, err error,
) {
	t.Helper()
	here := t.TempDir()
	program := filepath.Join(here, "kubelet")
	writeProgram(t, program, "#!/bin/sh\n"+script)

	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	d := DryRun{
		Program:     program,
		Words:       []kubelet.Word{{Text: "--config=/etc/kubelet.yaml"}},
		Environment: []string{"HERE=" + here},
		Config:      []byte("kind: KubeletConfiguration\n"),
		Folder:      t.TempDir(),
	}
	for _, text := range words {
		d.Words = append(d.Words, kubelet.Word{Text: text})
	}
	verdict, err = d.Run(ctx)

	left, _ := os.ReadDir(d.Folder)
	if len(left) != 0 {
		t.Errorf("files left by the dry run: got %v, want none", left)
	}
	if err != nil {
		out = err.Error()
	}

	return verdict, verdict.Refusal + out, err
}

// TestDryRun checks how each end of a kubelet is understood.
func TestDryRun(t *testing.T) {
	accepted := klog + `"` + dryRunEnd + `"`
	ownPath := "for w; do case $w in --config=*) echo \"" + strings.ReplaceAll(klog, `"`, `\"`) +
		"\\\"failed to load ${w#--config=}\\\"\";; esac; done; exit 1"
	for name, c := range table.YAML[map[string]struct {
		Script     string
		IsAccepted bool
		HasAnswer  bool
		Want       string // a part of the refusal, or of why there is no answer
	}](t, `
accepts: {script: 'echo ''{accepted}'' >&2; exit 1', isAccepted: true, hasAnswer: true}
accepts in JSON: {script: 'echo ''{"ts":1.5,"msg":"command failed","err":"{dryRunEnd}"}''; exit 1', isAccepted: true,
  hasAnswer: true}
a wrapper: {script: 'exec sh -c ''echo "$0"; exit 1'' ''{accepted}''', isAccepted: true, hasAnswer: true}
a child that ends: {script: '(sleep 0.1; echo ''{accepted}''); exit 1', isAccepted: true, hasAnswer: true}
refuses: {script: 'echo ''{klog}"failed: invalid configuration: maxPods, path: &TypeMeta{Kind:,secret}"''; exit 1',
  hasAnswer: true, want: 'failed: invalid configuration: maxPods'}
refuses in lines: {script: 'printf ''%s<\n\tbad label\n\tin config.yaml\n >\n'' ''{klog}''; exit 1', hasAnswer: true,
  want: bad label in config.yaml}
panics: {script: 'echo ''panic: unrecognized feature gate: X''; echo; echo ''goroutine 1 [running]:''; exit 2',
  hasAnswer: true, want: 'unrecognized feature gate: X'}
its own path: {script: '{ownPath}', hasAnswer: true, want: failed to load /etc/kubelet.yaml}
hangs: {script: sleep 60, want: no answer within}
forks and hangs: {script: sleep 60 & sleep 60, want: no answer within}
ends with 0: {script: exit 0, want: ended without an error}
says nothing: {script: exit 1, want: ended without an error}
prints for ever: {script: while echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; do :; done, want: no answer within}
is killed: {script: kill -9 $$, want: 'signal: killed'}
has no memory: {script: 'echo ''{klog}"fork: cannot allocate memory"''; exit 1', want: cannot allocate memory}
no memory for Go: {script: 'echo ''fatal error: failed to reserve page summary memory''; echo; exit 2',
  want: page summary memory}
no thread for Go: {script: 'printf ''runtime: failed to create new OS thread\nfatal error: newosproc\n''; exit 2',
  want: newosproc}
writes elsewhere: {script: 'touch $HERE/x 2>&1 | grep -q -i denied && echo ''{accepted}''; exit 1', isAccepted: true,
  hasAnswer: true}
writes its folders: {script: 'touch ./x && echo ''{accepted}''; exit 1', isAccepted: true, hasAnswer: true}
`, "accepted", accepted, "dryRunEnd", dryRunEnd, "klog", klog, "ownPath", ownPath) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 2 * time.Minute
			if c.Want == "no answer within" {
				limit = 4 * time.Second
			}
			v, out, err := dryRunWithin(t, limit, c.Script)
			if v.Accepted != c.IsAccepted || (err == nil) != c.HasAnswer || !strings.Contains(out, c.Want) {
				t.Errorf("got accepted %t, %q, error %v; want accepted %t, an answer: %t, with %q",
					v.Accepted, out, err, c.IsAccepted, c.HasAnswer, c.Want)
			}
			if strings.Contains(out, "secret") || strings.Contains(out, "dry-run-") {
				t.Errorf("got %q, want no configuration and no private path", out)
			}
		})
	}
}

// TestDryRunWithLock checks that a kubelet which ends as a dry run does is refused, and one with a lock is not.
func TestDryRunWithLock(t *testing.T) {
	script := "echo '" + klog + `"` + dryRunEnd + `"' >&2; exit 1`
	for words, want := range map[string]bool{
		"--exit-on-lock-contention":                         false,
		"--exit-on-lock-contention --lock-file=":            false,
		"--exit-on-lock-contention --lock-file=/run/k.lock": true,
		"--exit-on-lock-contention=false":                   true,
		"--exit_on_lock_contention --lock_file /run/k.lock": true,
		"--v=2": true,
	} {
		v, _, err := dryRun(t, script, strings.Fields(words)...)
		if err != nil || v.Accepted != want || !want && v.Refusal != dryRunEnd {
			t.Errorf("%s: got %+v, %v; want accepted %t", words, v, err, want)
		}
	}
}

// TestDryRunLeavesNoProcess: what a kubelet starts ends with the dry run.
func TestDryRunLeavesNoProcess(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	osfile.Write(t, pids, "", 0o666)
	// The folder is the only place where a script may write, and is removed: the number comes with the output.
	_, out, _ := dryRun(t, "sleep 300 >/dev/null 2>&1 & echo '"+klog+`"started '$!'"'; exit 1`)
	_, number, _ := strings.Cut(out, "started ")
	pid, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		t.Fatalf("the output: got %q, want the number of a process", out)
	}
	for range 1500 {
		if unix.Kill(pid, 0) != nil {
			return
		}
		if state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); strings.Contains(string(state), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d: got a running process, want none", pid)
}

// TestDryRunRemovesLeft: a dry run removes the folder of one that was killed, none in use, and none of others.
func TestDryRunRemovesLeft(t *testing.T) {
	in := t.TempDir()
	other := filepath.Join(in, "dry-run-results")
	must(t, os.Mkdir(other, 0o700))
	left := filepath.Join(in, "prelet-dry-run-1", "pki")
	must(t, os.MkdirAll(left, 0o700))
	osfile.Write(t, filepath.Join(left, "kubelet.key"), "secret", 0o600)
	used, remove, err := makeFolder(in)
	must(t, err)

	_, _ = DryRun{Program: "/bin/true", Folder: in}.Run(t.Context())
	all, _ := filepath.Glob(in + "/*")
	if want := []string{other, used}; !slices.Equal(all, want) {
		t.Errorf("after a dry run: got %v, want %v: of others, and in use", all, want)
	}

	remove()
	if all, _ := filepath.Glob(in + "/*"); !slices.Equal(all, []string{other}) {
		t.Errorf("after the other one: got %v, want %s", all, other)
	}
}

// TestDryRunSecrets: what a kubelet quotes of a secret in its configuration can be hidden, however its errors and its log
// quote it.
func TestDryRunSecrets(t *testing.T) {
	for _, password := range []string{
		"hunter2-hunter2", "hunter2 é hunter2", `hunter2"va\lue-hunter2`, "hunter2   and   hunter2", "hunter2\nhunter2\n",
		"hunter2\thunter2 \\\" é", `hunter2'<&>`,
	} {
		r := secret.NewRedactor()
		r.Add([]byte(password))
		folded := strings.ReplaceAll(strings.TrimRight(password, "\n"), "\n", " ") // by YAML
		_, errTime := time.ParseDuration("x" + folded)
		_, errNumber := strconv.Atoi(folded)
		var errJSON error
		if text, err := json.Marshal(folded); err == nil {
			errJSON = fmt.Errorf("cannot use %s", text)
		}
		for _, err := range []error{errTime, errNumber, errJSON, fmt.Errorf("got %s", folded), fmt.Errorf("got %q", folded)} {
			asJSON, _ := json.Marshal(map[string]string{"msg": "command failed", "err": err.Error()})
			for _, line := range []string{klog + strconv.Quote("failed: "+err.Error()), string(asJSON)} {
				v, failed := readVerdict([]string{line})
				if got := r.String(v.Refusal); failed != nil || v.Refusal == "" || strings.Contains(got, "hunter2") {
					t.Errorf("secret %q in %s: got %q, %v; want a refusal without it", password, line, got, failed)
				}
			}
		}
	}
}

// TestDryRunWords checks the command line: files in the private folder, no secret, and words as they are.
func TestDryRunWords(t *testing.T) {
	_, out, _ := dryRun(t, `printf '%s' '`+strings.TrimSuffix(klog, "=")+`="'; printf '<%s>' "$@"; echo '"'; exit 1`,
		"--lock-file=/run/lock", "--exit-on-lock-contention=false", "--root-dir", "/var/lib/kubelet", "--cert-dir=/pki",
		"--manifest-url-header=Authorization:Bearer abc", "--storage-driver-password", "hunter2",
		"--node-labels=a=b c", "--manifest-url=https://u:hunter2@host/x?a:b@c", `--x="q"`, "--node-ip")

	want := "<--exit-on-lock-contention><--root-dir=/var/lib/kubelet><--cert-dir=/pki><--config=/etc/kubelet.yaml>" +
		"<--lock-file=><--exit-on-lock-contention=true><--root-dir></var/lib/kubelet><--cert-dir=/pki>" +
		`<--manifest-url-header=Authorization:hidden><--storage-driver-password><hidden><--node-labels=a=b c>` +
		`<--manifest-url=https://u:hidden@host/x?a:b@c><--x="q">` +
		"<--node-ip>"
	if out != want {
		t.Errorf("words\ngot  %s\nwant %s", out, want)
	}
}

// TestDryRunOtherProgram checks programs and folders with which no dry run is possible.
func TestDryRunOtherProgram(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "kubelet")
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 120)...)
	elf[16], elf[18] = 2, 0xf3 // an executable for RISC-V
	osfile.Write(t, other, elf, 0o755)
	own, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	cut := filepath.Join(dir, "cut") // as a power cut leaves it
	osfile.Write(t, cut, own[:100<<10], 0o755)
	full := filepath.Join(dir, "file")
	osfile.Write(t, full, "", 0o644)

	for name, c := range map[string]struct {
		run  DryRun
		want string
	}{
		"another architecture": {DryRun{Program: other, Folder: dir}, "exec format error"},
		"missing":              {DryRun{Program: filepath.Join(dir, "no"), Folder: dir}, "no such file"},
		"cut off":              {DryRun{Program: cut, Folder: dir}, "segmentation fault"},
		"no folder":            {DryRun{Program: "/bin/true", Folder: full}, "no private folder can be made"},
	} {
		v, err := c.run.Run(t.Context())
		if got := fmt.Sprint(v.Broken, err); !strings.Contains(got, c.want) || (v.Broken != "") != (name != "no folder") {
			t.Errorf("%s: got %+v, %v; want %q", name, v, err, c.want)
		}
	}
}
