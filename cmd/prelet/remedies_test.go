package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// remedies are the commands of messages and pages that delete something. Each has the script that shows the state which
// it heals and what it deletes: only what is this machine's.
var remedies = []struct {
	command string // an expression, for FILE: COMMAND
	proof   string // a file of the repository
	shows   string // a part of it
}{
	{`kubectl delete node`, "cmd/prelet/testdata/nodes/renamed.txtar", "! matches err 'kubectl delete'"},
	{`kubectl delete node`, "test/kube/testdata/nodes/renamed_twin.txtar", "! exec sh -c 'kubectl wait"},
	{`rm /etc/kubernetes/kubelet.conf`, "test/kube/testdata/nodes/join_again.txtar", "rm /etc/kubernetes/kubelet.conf"},
	{`remove /etc/kubernetes/kubelet.conf`, "test/kube/testdata/nodes/join_again.txtar", "err 'remove /etc/kubernetes"},
	{`rm$`, "cmd/prelet/testdata/nodes/damaged_certificate.txtar", "out 'rm /var/lib/kubelet/pki/kubelet-client-"},
	{`rm -r (/var/lib/prelet/aside)?$`, "cmd/prelet/testdata/scenarios/seal_lost.txtar", "rm -r"},
	{`pulledsite.go: rm %s`, "cmd/prelet/testdata/nodes/delivery_source_missing.txtar",
		"remove /var/lib/prelet/sites/state.json"},
	{`remove /var/lib/prelet$`, "cmd/prelet/testdata/nodes/state_lost.txtar", "prelet 0 rollback 0"},
	{`rm $`, "cmd/prelet/testdata/scenarios/seal.txtar", "rm "},
	{`seal --yes`, "cmd/prelet/testdata/nodes/doubtful_machine_is_a_copy.txtar", "seal --yes"},
	{`--takeover`, "test/kube/testdata/nodes/two_machines.txtar", "node 0 run --takeover"},
	{`--accept-missing-variables`, "cmd/prelet/testdata/nodes/variable_gone.txtar", "--accept-missing-variables"},
	{`rollback --release`, "cmd/prelet/testdata/nodes/rollback_by_hand.txtar", "rollback --release"},
	// An argument of a test of a site, and a command that is compared with one of prelet.
	{`testfile/decode.go: remove %s`, "internal/lab/testfile/testfile_test.go", "reports nothing: remove facts"},
	{`glossary.md: kubeadm reset`, "docs/glossary.md", "| `kubeadm reset` | `prelet rollback 0` restores files"},
	{`rollback 0`, "cmd/prelet/testdata/nodes/clone.txtar", "prelet 0 rollback 0"},
}

// deletes matches a command that deletes or moves away, also with a path or name that the program fills in.
var deletes = regexp.MustCompile(`kubectl [^\n;|&` + "`" + `]*\bdelete [a-z%]+|kubeadm reset|` +
	`\brm (-\S+ )*$|^rm$|\b([Rr]m|[Rr]emove|mv) (-\S+ )*(%(\[\d\])?[qsv]|/[^\s"` + "`" + `,;:]+)|` +
	`\bseal --yes|--takeover|--accept-missing-variables|rollback --release|rollback 0`)

// onPages are commands of pages for a person that removes prelet itself, or works on a copy of the repository.
var onPages = regexp.MustCompile(`rm (-rf?|/usr)|rm -rf bin/try`)

// TestNoRemedyDestroysOthers collects each command of messages, pages of codes and documentation that deletes, and
// wants a proof of it: no remedy deletes what another machine lives on, and the state that it heals is named.
func TestNoRemedyDestroysOthers(t *testing.T) {
	t.Parallel()
	const top = "../.."
	used := make([]bool, len(remedies))
	count := 0
	check := func(file, text string) {
		for _, at := range deletes.FindAllStringIndex(text, -1) {
			command := text[at[0]:at[1]]
			if strings.HasSuffix(file, ".md") && onPages.MatchString(command) {
				continue
			}
			count++
			if !markUsed(used, file+": "+command) {
				t.Errorf("%s: got the command %q, want it in the list of this test, with its proof", file, command)
			}
			isGuarded := strings.Contains(text[max(0, at[0]-100):at[0]], "kubectl wait --for=condition=Ready=Unknown")
			if strings.HasPrefix(command, "kubectl") && !isGuarded {
				t.Errorf("%s: got %q alone, want it after a wait that ends only if no machine keeps the Node Ready",
					file, command)
			}
		}
	}

	for _, folder := range []string{"cmd", "internal", "stages", "schema", "docs"} {
		err := filepath.WalkDir(filepath.Join(top, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() == "testdata" || path == filepath.Join(top, "internal/testing") {
				if d != nil && d.IsDir() && err == nil {
					return filepath.SkipDir
				}
				return err
			}
			isPage := filepath.Ext(path) == ".md" || strings.HasPrefix(path, filepath.Join(top, "internal/fault/pages"))
			switch {
			case isPage && !d.IsDir():
				text, err := os.ReadFile(path)
				check(path, string(text))
				return err
			case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
				return checkLiterals(path, check)
			}
			return nil
		})
		noError(t, err)
	}

	for i, r := range remedies {
		text, err := os.ReadFile(filepath.Join(top, r.proof))
		if err != nil || !strings.Contains(string(text), r.shows) {
			t.Errorf("%s: got %v, and a proof without %q; want it there", r.proof, err, r.shows)
		}
		if !used[i] {
			t.Errorf("%s: got no message or page with it, want it out of the list", r.command)
		}
	}
	t.Logf("%d commands that delete, of %d kinds", count, len(remedies))
}

// markUsed marks the remedies of a command, and reports whether there is one.
func markUsed(used []bool, command string) (found bool) {
	for i, r := range remedies {
		if regexp.MustCompile(r.command).MatchString(command) {
			used[i], found = true, true
		}
	}

	return found
}

// checkLiterals checks the texts of a program, each with the texts that are added to it.
func checkLiterals(path string, check func(file, text string)) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			check(path, joinLiterals(n))
			return false
		case *ast.BasicLit:
			check(path, joinLiterals(n))
		}
		return true
	})

	return nil
}

// joinLiterals returns a sum of texts; what is not a literal is a blank.
func joinLiterals(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BinaryExpr:
		return joinLiterals(x.X) + joinLiterals(x.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return text
		}
	}

	return ""
}
