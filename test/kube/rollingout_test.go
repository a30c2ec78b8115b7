package kube

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRollingOut runs the commands of the page on rolling out a change: those that begin with "$" on this machine, and
// those that begin with "n1$" on the node of the first wave.
func TestRollingOut(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	n1 := newMember(t, c, NodeOptions{Name: "n1"}, annotated("old", "r1")...)
	n2 := newMember(t, c, NodeOptions{Name: "n2"}, annotated("old", "r1")...)
	work := rolloutFolder(t, n1, n2)

	commands := readCommands(t, "../../docs/how-to/rolling-out.md")
	want := map[string]string{ // by command: a text in its output
		"$ prelet plan --from fleet/ --config new/ --against old/": "label example.com/pool changes from old to new",
		"n1$ prelet run":                                        "",
		"$ kubectl prelet -l rollout=wave-1":                    "r2",
		"$ kubectl prelet -l rollout=wave-1 --degraded -o json": `"nodes": []`,
		"n1$ prelet status":                                     "pinned",
		"$ kubectl prelet n1":                                   "held",
	}
	ran := map[string]bool{}
	for _, line := range commands {
		switch line {
		case "n1$ prelet plan":
			n1.site(annotated("new", "r2")...)
		case "n1$ prelet rollback --release":
			n1.site(annotated("old", "r1")...)
		}
		ran[line] = true
		out := strings.Join(strings.Fields(runLine(t, c, n1, work, line)), " ")
		if !strings.Contains(out, want[line]) {
			t.Errorf("%s: got\n%s\nwant text with %q", line, out, want[line])
		}
	}
	for line := range want {
		if !ran[line] {
			t.Errorf("docs/how-to/rolling-out.md: got no command %q, want it", line)
		}
	}

	last := kubectlPrelet(t, c)
	if !strings.Contains(last, "revision r1: 2") || !strings.Contains(last, "degraded: 0") {
		t.Errorf("at the end: got\n%s\nwant both nodes at revision r1, and none degraded", last)
	}
}

// rolloutFolder has the recordings of the nodes, the old site and the new one.
func rolloutFolder(t *testing.T, nodes ...member) string {
	t.Helper()
	work := t.TempDir()
	write := func(name, text string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(work, name), []byte(text), 0o644))
	}

	for _, n := range nodes {
		write("fleet/"+n.Name+".prelet", prelet(t, n.Node, 0, "record", "-").Out)
	}
	first := nodes[0]
	old, err := first.Read("/etc/prelet/site.hcl")
	must(t, err)
	write("old/site.hcl", old)
	write("new/site.hcl", strings.NewReplacer(`"old"`, `"new"`, `"r1"`, `"r2"`).Replace(old))

	return work
}

// readCommands returns the lines of a page that begin with a prompt.
func readCommands(t *testing.T, page string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "n1$ ") {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// runLine runs a command and returns its output.
func runLine(t *testing.T, c *Cluster, n member, work, line string) string {
	t.Helper()
	if words, ok := strings.CutPrefix(line, "n1$ prelet "); ok {
		exit := 0
		if words == "status" { // the node is degraded
			exit = 2
		}
		r := prelet(t, n.Node, exit, strings.Fields(words)...)
		return r.Out + r.Err
	}

	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimPrefix(line, "$ "))
	cmd.Dir = work
	path := filepath.Dir(c.Prelet) + ":" + filepath.Dir(c.of("kubectl")) + ":" + os.Getenv("PATH")
	cmd.Env = append(os.Environ(), "PATH="+path, "HOME="+c.Dir, "KUBECONFIG="+c.Path("super-admin.conf"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: got %v, want no error\n%s", line, err, out)
	}
	return string(out)
}
