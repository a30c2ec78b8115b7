package dryrun

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/kubeletbin"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/judge"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/testing/osfile"
	"github.com/prelet/prelet/stages"
)

// TestAnswer checks what becomes of the end of a dry run: a secret is not in the answer, which is recorded, and the
// answer of a program that was replaced meanwhile is none.
func TestAnswer(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, c := range map[string]struct {
		refusal string
		during  func(program string) error
		want    string // a part of the refusal or the failure
		isAsked bool
	}{
		"refused":  {"maxPods " + secret + " is bad", nil, "maxPods (hidden) is bad", true},
		"accepted": {"", nil, "", true},
		"replaced": {"maxPods is bad", func(program string) error {
			return os.WriteFile(program, []byte("#!/bin/sh\nexit 1\n"), 0o755)
		}, "replaced while it was asked", false},
		"removed": {"", os.Remove, "replaced while it was asked", false},
	} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "kubelet")
			osfile.Write(t, program, "#!/bin/sh\n", 0o755)
			binary, err := kubeletbin.At(program)
			if err != nil {
				t.Fatal(err)
			}
			a := Asker{
				Binary: func() *kubeletbin.Binary { return binary },
				Redact: func(s string) string { return strings.ReplaceAll(s, secret, "(hidden)") },
				Run: func(d kubeletbin.DryRun, _ context.Context) (kubeletbin.Verdict, error) {
					if c.during != nil {
						if err := c.during(d.Program); err != nil {
							t.Fatal(err)
						}
					}
					return kubeletbin.Verdict{Accepted: c.refusal == "", Refusal: c.refusal}, nil
				},
			}

			ans := a.Answer(t.Context(), tape.DryRunReq{})
			text := string(ans.Value) + ans.Why()
			if !strings.Contains(text, c.want) || strings.Contains(text, secret) || (ans.Fault == nil) != c.isAsked {
				t.Errorf("got %s, want %q and an answer: %t", text, c.want, c.isAsked)
			}
		})
	}
}

// TestAnswerBroken: an image's program that cannot run here may run there, and one of --kubelet is said not to run. On a
// node it is the answer.
func TestAnswerBroken(t *testing.T) {
	program := filepath.Join(t.TempDir(), "kubelet")
	osfile.Write(t, program, "#!/bin/sh\n", 0o755)
	binary, err := kubeletbin.At(program)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asker *Asker
		want  fault.Code
	}{
		"of an image":  {&Asker{IsImage: true}, fault.Unread},
		"of --kubelet": {&Asker{}, fault.KubeletMachine},
		"of this node": {&Asker{Secret: func(string) ([]byte, error) { return nil, nil }}, ""},
	} {
		a := c.asker
		a.Binary = func() *kubeletbin.Binary { return binary }
		a.Redact = strings.Clone
		a.Run = func(kubeletbin.DryRun, context.Context) (kubeletbin.Verdict, error) {
			return kubeletbin.Verdict{Broken: "signal: segmentation fault"}, nil
		}
		a.Root = nodefile.Root(t.TempDir())
		unit := filepath.Join(string(a.Root), "etc/systemd/system/kubelet.service")
		osfile.Write(t, unit, "[Service]\nExecStart=/usr/bin/kubelet\n", 0o644)
		a.Finish(judge.FinishedKubelet{Unit: "kubelet.service"})
		if ans := a.Answer(t.Context(), tape.DryRunReq{}); ans.Code() != c.want {
			t.Errorf("%s: got code %q, want %q", name, ans.Code(), c.want)
		}
	}
}

// TestAnswerAgain checks when the binary is started: a run does not ask again about the words and files in place, a plan
// for a person does. Others may have changed a drop-in or an environment file that no plan writes.
func TestAnswerAgain(t *testing.T) {
	root := nodefile.Root(t.TempDir())
	place := func(name, text string, mode os.FileMode) {
		t.Helper()
		osfile.Write(t, filepath.Join(string(root), name), text, mode)
	}
	place("/usr/bin/kubelet", "#!/bin/sh\n", 0o755)
	place("/etc/systemd/system/kubelet.service", "[Service]\nEnvironmentFile=/run/prelet/kubelet.env\n"+
		"EnvironmentFile=/etc/x.env\nExecStart=/usr/bin/kubelet --config-dir=/etc/k.d $X\n", 0o644)
	place("/etc/x.env", "X=--v=2\n", 0o644)
	place("/etc/k.d/10-x.conf", "maxPods: 20\n", 0o644)
	place("/run/prelet/kubelet.env", "PRELET_GENERATION=1\n", 0o644)

	cache, starts := filepath.Join(string(root), "kubelet.json"), 0
	accept := func(kubeletbin.DryRun, context.Context) (kubeletbin.Verdict, error) {
		starts++
		return kubeletbin.Verdict{Accepted: true}, nil
	}
	hang := func(kubeletbin.DryRun, context.Context) (kubeletbin.Verdict, error) {
		starts++
		return kubeletbin.Verdict{}, context.DeadlineExceeded
	}
	for _, c := range []struct {
		name   string
		change func()
		run    Run
		isRun  bool
		starts int
		isKept bool
	}{
		{"the first boot", nil, accept, true, 1, true},
		{"the next boot", func() { place("/run/prelet/kubelet.env", "PRELET_GENERATION=2\n", 0o644) }, accept, true, 0, true},
		{"a plan for a person", nil, accept, false, 1, true},
		{"another drop-in", func() { place("/etc/k.d/10-x.conf", "maxPods: -1\n", 0o644) }, accept, true, 1, true},
		{"another word", func() { place("/etc/x.env", "X=--v=3\n", 0o644) }, accept, true, 1, true},
		{"no answer", func() { place("/etc/x.env", "X=--v=4\n", 0o644) }, hang, true, 1, false},
		{"after no answer", nil, accept, true, 1, true},
		{"unchanged", nil, accept, true, 0, true},
	} {
		if c.change != nil {
			c.change()
		}
		starts = 0
		binary := kubeletbin.Find(string(root), cache, nil)
		a := Asker{
			Binary: func() *kubeletbin.Binary { return binary },
			Run:    c.run,
			IsRun:  c.isRun,
			Root:   root,
			Secret: func(string) ([]byte, error) { return nil, nil },
			Redact: strings.Clone,
		}
		a.Finish(judge.FinishedKubelet{Unit: "kubelet.service"})
		ans := a.Answer(t.Context(), tape.DryRunReq{})

		if starts != c.starts || (a.Digest() != "") != c.isKept || (ans.Fault == nil) != c.isKept {
			t.Errorf("%s: got %d starts, the digest %q, answer %s %v; want %d starts, a digest and an answer: %t",
				c.name, starts, a.Digest(), ans.Value, ans.Fault, c.starts, c.isKept)
		}

		kept, _ := binary.Keep("v1.37.1", nil)
		kept.Accepted = a.Digest()
		text, err := kept.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		place("/kubelet.json", string(text), 0o600)
	}
}

// TestPrepare checks what a dry run reads: on a node the unit's command line with all its files, the planned files in
// place of those on the disk, secrets filled in; of another machine only what the plan has.
func TestPrepare(t *testing.T) {
	root := t.TempDir()
	osfile.WriteTree(t, root, map[string]string{
		"/etc/systemd/system/kubelet.service": "[Service]\nEnvironment=\"A=--v=2 --node-ip=10.0.0.5\"\nEnvironmentFile=/etc/default/kubelet\n" +
			"ExecStart=/usr/bin/kubelet --config=/etc/k.yaml --config-dir=/etc/k.d $A $EXTRA\n",
		"/etc/default/kubelet": "EXTRA=--max-pods=1\n",
		"/etc/k.yaml":          "kind: KubeletConfiguration\n",
		"/etc/k.d/10-x.conf":   "kind: KubeletConfiguration\n",
	})
	planned := desired.File{Path: "/etc/default/kubelet", Kind: desired.Regular, Text: secret.PlainText("EXTRA=--max-pods=2\n")}
	secrets := func(string) ([]byte, error) { return nil, nil }

	for name, c := range map[string]struct {
		asker   *Asker
		kubelet judge.FinishedKubelet
		words   string
		config  string
		dropIns int
	}{
		"planned": {
			&Asker{Root: nodefile.Root(root), Secret: secrets},
			judge.FinishedKubelet{
				Unit: "kubelet.service", Files: []desired.File{planned}, Folder: "/etc/k.d",
			},
			"--config=/etc/k.yaml --config-dir=/etc/k.d --v=2 --node-ip=10.0.0.5 --max-pods=2", "kind: KubeletConfiguration\n", 0,
		},
		"planned, and the folder is another": {
			&Asker{Root: nodefile.Root(root), Secret: secrets},
			judge.FinishedKubelet{
				Unit: "kubelet.service", Files: []desired.File{planned},
				Folder: "/etc/other.d", DropIns: []stages.DropIn{{Path: "/etc/other.d/a.conf"}, {Path: "/etc/other.d/b.conf"}},
			},
			"--config=/etc/k.yaml --config-dir=/etc/k.d --v=2 --node-ip=10.0.0.5 --max-pods=2", "kind: KubeletConfiguration\n", 1,
		},
		"planned, and the folder is not known": {
			&Asker{Root: nodefile.Root(root), Secret: secrets},
			judge.FinishedKubelet{Unit: "kubelet.service", Files: []desired.File{planned}},
			"--config=/etc/k.yaml --config-dir=/etc/k.d --v=2 --node-ip=10.0.0.5 --max-pods=2", "kind: KubeletConfiguration\n", 1,
		},
		"in place": {
			&Asker{Root: nodefile.Root(root), Secret: secrets},
			judge.FinishedKubelet{Unit: "kubelet.service"},
			"--config=/etc/k.yaml --config-dir=/etc/k.d --v=2 --node-ip=10.0.0.5 --max-pods=1", "kind: KubeletConfiguration\n", 1,
		},
		"another machine": {
			&Asker{Binary: func() *kubeletbin.Binary { return nil }},
			judge.FinishedKubelet{
				Files: []desired.File{{Path: "/a.yaml", Kind: desired.Regular, Purpose: "kubelet-config", Text: secret.PlainText("maxPods: 3\n")}},
				Words: []kubelet.Word{{Text: "--max-pods=3"}},
			},
			"--config=/a.yaml --max-pods=3", "maxPods: 3\n", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			run, err := c.asker.prepare(t.Context(), c.kubelet)
			if err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, w := range run.Words {
				words = append(words, w.Text)
			}
			if got := strings.Join(words, " "); got != c.words || string(run.Config) != c.config || len(run.DropIns) != c.dropIns {
				t.Errorf("got %s, %q, %d drop-ins; want %s, %q, %d", got, run.Config, len(run.DropIns), c.words, c.config, c.dropIns)
			}
		})
	}
}
