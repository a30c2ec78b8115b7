package deptest

import "fmt"

// Library is a package that a program must contain, because it does the program's infrastructure.
type Library struct {
	Program string // below the module
	Path    string
	Does    string
}

// libraries are those of docs/develop/decisions/0012-libraries.md that code of our own could replace unnoticed.
func libraries() []Library {
	return []Library{
		{"cmd/prelet", "github.com/hashicorp/hcl/v2", "reads the language"},
		{"cmd/prelet", "k8s.io/client-go/rest", "makes every request to a cluster"},
		{"cmd/prelet", "k8s.io/client-go/tools/clientcmd", "reads kubeconfigs"},
		{
			"cmd/prelet",
			"github.com/jaypipes/ghw",
			"reads firmware, memory, PCI functions and disks",
		},
		{"cmd/prelet", "github.com/coreos/go-systemd/v22/daemon", "sends to the notify socket"},
		{"cmd/prelet", "github.com/coreos/go-systemd/v22/dbus", "asks systemd for units and jobs"},
		{"cmd/prelet", "github.com/coreos/go-systemd/v22/journal", "sends to journald"},
		{"cmd/prelet", "oras.land/oras-go/v2/registry/remote", "makes every request to a registry"},
		{"cmd/prelet", "oras.land/oras-go/v2/registry/remote/credentials", "reads passwords of registries"},
		{"cmd/prelet", "github.com/schollz/progressbar/v3", "draws the progress line"},
		{"cmd/kubectl-prelet", "k8s.io/cli-runtime/pkg/printers", "prints tables as kubectl does"},
		{"cmd/prelet-detect", "github.com/hashicorp/go-plugin", "speaks to a detector"},
	}
}

// CheckLibraries returns one message for each library that a program has lost.
func CheckLibraries(g Graph) []string {
	var lost []string
	for _, l := range libraries() {
		chain := g.Chain(module+l.Program, func(p *Package) bool {
			return p.ImportPath == l.Path
		})
		if chain == nil {
			lost = append(
				lost,
				fmt.Sprintf(
					"%s does not contain %s, which %s: a well-kept library beats code of our own. "+
						"To replace it, change docs/develop/decisions/0012-libraries.md and this table, with the reason",
					l.Program,
					l.Path,
					l.Does,
				),
			)
		}
	}

	return lost
}
