package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/nodefile/hangfs"
	"github.com/prelet/prelet/internal/testing/sample"
)

// hangingSite has a file of a block, and a path that an expression asks for.
const hangingSite = `
stage "write" "kubelet" {
  file "extra" {
    path    = "/etc/extra/pool"
    content = fileexists("/mnt/data/x") ? "b" : "a"
  }
}
`

// hangingJoin is a file that import reads, before the patches that it is given.
const hangingJoin = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: 10.0.0.1:6443
    token: abcdef.0123456789abcdef
    caCertHashes: ["sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
`

// TestNoCommandHangs runs each command on a node of which one folder never answers: by itself it ends within its
// bound, and after SIGTERM it ends at once. What waited says for which path. A quick run takes a quarter of the cases.
func TestNoCommandHangs(t *testing.T) {
	t.Parallel()

	m := newMachine(t)
	m.site = strings.Replace(m.site, "stage \"write\" \"kubelet\" {}\n", hangingSite, 1)
	m.put("/etc/prelet/site.hcl", m.site)
	for _, folder := range []string{"/mnt/data", "/opt/bin", namedFolder} {
		m.put(folder+"/.keep", "")
	}
	m.mustBeGood(m.boot())

	paths := []string{
		"/var/lib/prelet", "/etc/prelet", "/etc/extra", "/mnt/data", "/etc/kubernetes", "/opt/bin", namedFolder,
	}
	hanging := map[string]string{} // by the place, a root in which it does not answer
	for _, path := range paths {
		root := filepath.Join(t.TempDir(), "root")
		m.copyTree(m.root, root)
		hangfs.MountOn(t, root+path)
		hanging[path] = root
	}

	var all sync.WaitGroup
	waited := make(chan string, 1<<12)
	cases := 0
	chosen, oneIn := sample.New(t), sample.Quarter(1)
	free := make(chan struct{}, 24)
	for path, root := range hanging {
		commands := plainCommands()
		var naming []string
		if path == namedFolder {
			naming = listNamingCommands(t)
			commands = append(namingCommands(), naming...)
		}
		for _, command := range commands {
			for _, isStopped := range []bool{false, true} {
				if !chosen.Has(oneIn, path, command, isStopped) {
					continue
				}
				cases++
				mustWait := slices.Contains(naming, command) && !isStopped
				h := hangingCase{t, m.creds, root, path, command, isStopped, mustWait, t.TempDir()}
				all.Go(func() {
					free <- struct{}{}
					defer func() { <-free }()
					if h.run() {
						waited <- path
					}
				})
			}
		}
	}
	all.Wait()
	close(waited)

	var of []string
	for path := range waited {
		of = append(of, path)
	}
	for _, path := range paths {
		if oneIn == 1 && !slices.Contains(of, path) {
			t.Errorf("%s: got no command that waits for it, want some", path)
		}
	}
	t.Logf("%d cases, %d of them waited", cases, len(of))
}

// plainCommands are the commands that read a node by themselves.
func plainCommands() []string {
	return []string{
		"plan --root ROOT", "status --root ROOT", "history --root ROOT", "doctor --root ROOT", "run --root ROOT",
		"detectors list --root ROOT", "record out.prelet --root ROOT", "bundle out.tar.gz --root ROOT",
		"rollback --root ROOT", "recover --root ROOT", "site update --root ROOT", "validate",
	}
}

// namedFolder is on no path that a command reads by itself.
const namedFolder = "/mnt/named"

// namingCommands name a path in a form that listNamingCommands does not.
func namingCommands() []string {
	return []string{
		"plan --root ROOT --config HANGING", "plan --hardware HANGING", "plan --root ROOT --kubelet HANGING",
		"plan --from HANGING", "plan --from HANGING/x.prelet", "plan --from HANGING/x.tar.gz", "explain --from HANGING node",
		"plan --root ROOT --config oci-layout:HANGING/x:stable", "validate HANGING", "validate HANGING/x.hcl", "fmt HANGING",
		"fmt HANGING/x.hcl", "test HANGING", "test HANGING/x.prelettest.hcl", "import x --out HANGING/new",
	}
}

// lineOf has the arguments with which a command comes to the paths that it is given, without --root.
var lineOf = map[string]string{
	"bundle":          "new.tar.gz",
	"detectors check": "kubeadm.yaml",
	"detectors lock":  "kubeadm.yaml",
	"eval":            "1",
	"explain":         "node",
	"fleet merge":     "kubeadm.yaml",
	"history diff":    "1",
	"history show":    "1",
	"import":          "kubeadm.yaml --out new",
	"init":            "--from-node",
	"pull":            "oci-layout:ROOT/oci:stable",
	"push":            "ROOT/etc/prelet oci-layout:new:stable",
	"record":          "new.prelet",
	"report":          "--html page",
	"site sign":       "ROOT/etc/prelet --key kubeadm.yaml",
	"site verify":     "ROOT/etc/prelet --signers kubeadm.yaml",
	"upgrade":         "--to 1.36",
}

// notReached are the paths, by command and place, that this test does not come to, and why.
var notReached = map[string]string{
	"detectors check --detector-config": "prelet-detector-check reads it",
	"detectors check --machine":         "prelet-detector-check reads it",
	"detectors check BINARY":            "prelet-detector-check reads it",
	"detectors lock --execute":          "the program is granted it after its users were found",
	"detectors lock --out":              "it is written after the program has described itself",
	"detectors lock --path":             "a path of nodes",
	"detectors lock --read":             "the program is granted it after its users were found",
	"fleet merge --html":                "it is written after partial results were read, as that of report is",
	"test --junit":                      "it is written after tests were run, as --html is",
}

// isPath reports whether a word of a help is the place of a path.
func isPath(t *testing.T, word string) bool {
	t.Helper()
	isPath, isKnown := map[string]bool{
		"FILE": true, "DIR": true, "FOLDER": true, "PATH": true, "PROGRAM": true, "SITE": true, "BINARY": true, "REF": true,
		"JSON": true, // or @FILE

		"A": false, "ARGUMENTS": false, "B": false, "BLOCK": false, "COMMAND": false, "EXPR": false, "FORMAT": false,
		"HASH": false, "HOST/PATH": false, "HOST:PORT": false, "I/N": false, "ITEM": false, "N": false, "NAME": false,
		"NAME=VALUE": false, "REGEX": false, "TIME": false, "VERSION": false, "5%": false, "string": false, "uint": false,
		"": false, "duration": false, "int": false,
	}[word]
	if !isKnown {
		t.Errorf("%s in a help: got a word that this test does not know, want it in this list", word)
	}

	return isPath
}

// listNamingCommands returns each command with each argument and each flag that is a path, from the tree of commands.
func listNamingCommands(t *testing.T) (all []string) {
	t.Helper()
	for name, c := range commandsByPath(t) {
		root := ""
		if flag := c.Flags().Lookup("root"); flag != nil {
			root = " --root ROOT"
		}
		add := func(place, line string) {
			if notReached[name+" "+place] == "" {
				all = append(all, strings.Join(strings.Fields(name+" "+line), " "))
			}
		}

		given := strings.Fields(lineOf[name])
		_, use, _ := strings.Cut(strings.TrimSuffix(c.Use, " -- ARGUMENTS"), " ")
		place := 0
		for _, word := range strings.FieldsFunc(use, func(r rune) bool { return strings.ContainsRune(" []|.", r) }) {
			if strings.HasPrefix(word, "-") {
				break // a flag of the list below, or standard input
			}
			if isPath(t, word) {
				args := append(slices.Clone(given), slices.Repeat([]string{""}, max(0, place+1-len(given)))...)
				if place < len(given) && strings.HasPrefix(given[place], "-") {
					args = slices.Insert(args, place, "")
				}
				args[place] = "HANGING/x"
				switch {
				case word == "REF":
					args[place] = "oci-layout:HANGING/x:stable"
				case place < len(given): // with the suffix that it must have
					_, suffix, hasSuffix := strings.Cut(given[place], ".")
					if hasSuffix {
						args[place] += "." + suffix
					}
				}
				add(word, strings.Join(args, " ")+root)
			}
			place++
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			word, _ := pflag.UnquoteUsage(f)
			if !isPath(t, word) {
				return
			}
			value := "HANGING/x"
			if word == "JSON" {
				value = "@HANGING/x"
			}
			line := lineOf[name] + root
			if f.Name == "root" || f.Name == "from" { // --from excludes --root
				line = lineOf[name]
			}
			add("--"+f.Name, line+" --"+f.Name+" "+value)
		})
	}
	slices.Sort(all)

	return all
}

// hangingCase is a command on a node on which a folder never answers.
type hangingCase struct {
	t         *testing.T
	creds     string
	root      string
	path      string // the folder
	command   string
	isStopped bool // by SIGTERM, once it says that it waits
	mustWait  bool
	folder    string
}

// run runs the case, and reports whether the command waited.
func (h hangingCase) run() (hasWaited bool) {
	at := h.root + h.path
	args := strings.Fields(strings.NewReplacer("HANGING", at, "ROOT", h.root).Replace(h.command))
	must(h.t, os.WriteFile(filepath.Join(h.folder, "kubeadm.yaml"), []byte(hangingJoin), 0o644))
	c := exec.Command("prelet", args...)
	c.Dir = h.folder
	c.Env = append(os.Environ(), "CREDENTIALS_DIRECTORY="+h.creds)
	c.Stdin = strings.NewReader("1\n") // for console
	var out lockedBuffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		h.t.Error(err)
		return false
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()

	const waiting = "prelet: waiting for "
	end := time.After(10 * time.Minute)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	isSignalled, isInTime := false, false
	began := time.Now()
	for isOver := false; !isOver; {
		select {
		case <-ended:
			isOver = true
		case <-end:
			h.t.Errorf("%s with %s: got no end, want one:\n%s", h.command, h.path, out.String())
			_ = c.Process.Kill()
			return true
		case <-look.C:
			if h.isStopped && !isSignalled && strings.Contains(out.String(), waiting+at) {
				isSignalled = true
				// On a machine that stood still the wait is over by now, and the command may be at its end.
				isInTime = time.Since(began) < nodefile.Patience/2
				_ = c.Process.Signal(syscall.SIGTERM)
			}
		}
	}

	text := out.String()
	first, _, _ := strings.Cut(text, waiting)
	if strings.HasPrefix(h.command, "status") && h.path == "/var/lib/prelet" && !strings.Contains(first, "kubelet  ") {
		h.t.Errorf("status with %s: got no line before it waits, want what needs no generation:\n%s", h.path, text)
	}
	hasWaited = strings.Contains(text, waiting)
	if h.mustWait && !hasWaited {
		h.t.Errorf("%s: got an end without a wait, want a line that says for which path it waits:\n%s", h.command, text)
	}
	if hasWaited && !strings.Contains(text, waiting+at) {
		h.t.Errorf("%s with %s: got a wait for another path, want one for it:\n%s", h.command, h.path, text)
	}
	if isInTime && !strings.Contains(strings.ToLower(text), "stopped by a signal") {
		h.t.Errorf("%s with %s, after SIGTERM: got an end without its reason, want one:\n%s", h.command, h.path, text)
	}
	if isInTime && strings.Contains(text, "did not answer within") {
		h.t.Errorf("%s with %s, after SIGTERM: got the end of the wait, want an end before it:\n%s", h.command, h.path, text)
	}

	return hasWaited
}

// lockedBuffer can be read while a process writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.text.String()
}
