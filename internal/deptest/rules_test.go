package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// module is the prefix of the import paths of this module.
const module = "github.com/prelet/prelet/"

// Rule forbids a set of packages to import another set, directly or through other packages.
type Rule struct {
	Packages []string // patterns of packages, relative to the module
	Except   []string // patterns of packages that are exempt
	// Patterns of import paths; "!std" is everything outside the standard library and the package itself.
	Forbidden []string
	Allowed   []string // patterns that "!std" does not forbid
	Direct    bool     // only direct imports count
	Reason    string
}

// pure lists the packages that only compute: they turn a site and answers into a plan, and explain it. They get the
// site's files as an fs.FS.
var pure = []string{
	"internal/lab/compare/...",
	"internal/lab/explain/...",
	"internal/lab/fleet/...",
	"internal/lab/nodeobject/...",
	"internal/lab/testfile/...",
	"internal/plan/...",
	"stages/...",
	"schema/...",
	"internal/model/codec/...",
	"internal/model/desired/...",
	"internal/model/functions/...",
	"internal/model/origin/...",
	"internal/model/texts/...",
	"internal/model/secret/...",
	"internal/model/tape/...",
	"internal/model/value/...",
	"internal/fault/...",
}

// steps lists the evaluation of a site and the packages that its steps ask.
var steps = []string{
	module + "internal/plan/evaluate/...",
	module + "internal/plan/blame/...",
	module + "internal/plan/detectors/...",
	module + "internal/plan/effective/...",
	module + "internal/plan/hostfiles/...",
	module + "internal/plan/identity/...",
	module + "internal/plan/judge/...",
	module + "internal/plan/limit/...",
	module + "internal/plan/preflight/...",
	module + "internal/plan/removal/...",
	module + "internal/plan/states/...",
}

// importers lists the packages that read the cluster, the container runtime, the hardware and systemd, and the packages
// that may import them.
var importers = []string{"internal/machine/probe/...", "internal/platform/systemd/..."}

// connectors lists the packages that connect to systemd: those that open a node, and those that look at one.
var connectors = []string{
	"internal/machine",
	"internal/machine/unitflags",
	"internal/lab/doctor",
	"internal/lab/images",
	"internal/lab/inspect",
	"internal/lab/sites",
	"internal/testing/demo/...",
}

// rules returns the rules of this module.
func rules() []Rule {
	return []Rule{
		{
			Packages:  pure,
			Forbidden: []string{"net", "net/http/...", "crypto/tls"},
			Reason: "the same site and the same answers must give the same plan, so a package that only " +
				"computes must not open connections: it asks a question through the tape, and " +
				"internal/machine/probe answers it. Label and taint syntax are in " +
				"k8s.io/apimachinery/pkg/api/validate/content and quantities in pkg/api/resource, which " +
				"do not import net; util/validation, labels and meta/v1 do",
		},
		{
			Packages:  pure,
			Except:    []string{"internal/plan/lang"}, // its file os.go reads a site; the rest gets an fs.FS
			Forbidden: []string{"os"},
			Direct:    true, // fmt imports it
			Reason: "a package that only computes must not read files: it asks a question through the tape, " +
				"which internal/machine/probe answers",
		},
		{
			Packages:  pure,
			Forbidden: []string{"syscall", "golang.org/x/sys/...", "path/filepath"},
			Direct:    true,
			Reason: "a package that only computes must return the same result on a laptop and on the node; " +
				"paths of a node are Linux paths, so use path",
		},
		{
			Packages:  pure,
			Forbidden: []string{"math/rand/...", "crypto/rand"},
			Direct:    true,
			Reason: "the same answers must give the same plan, byte for byte; where a commit needs random " +
				"numbers, they are passed in",
		},
		{
			Packages:  pure,
			Forbidden: []string{"os/exec", "os/signal", "plugin"},
			Reason: "only internal/machine/detector may start a program, to answer a question: a plan must depend " +
				"only on the site and the answers",
		},
		{
			Packages: pure,
			Forbidden: []string{
				module + "internal/machine/probe/...",
				module + "internal/platform/systemd/...",
				module + "internal/machine/activation/...",
				module + "internal/machine/detector/...",
			},
			Reason: "these packages read or change the node; the same code must plan from a recording on a " +
				"laptop, without them",
		},
		{
			Packages:  []string{"internal/machine/probe/..."},
			Forbidden: steps,
			Reason: "an answer must not depend on the plan that is made of it: what both know about the kubelet " +
				"belongs in internal/model/kubelet",
		},
		{
			Packages:  []string{"internal/machine/probe/hardware/..."},
			Forbidden: []string{module + "internal/machine/probe/cluster/..."},
			Reason: "facts about hardware must be read from files only, so that they are the same without a " +
				"cluster",
		},
		{
			Packages:  []string{"internal/machine/probe/hardware/..."},
			Forbidden: []string{"os/exec", "net/http/..."},
			Direct:    true, // ghw imports both, for ethtool and for downloading pci.ids, which its options disable
			Reason: "facts about hardware must be read from files: a program describes this machine, not a " +
				"recorded one, and if it hangs, the boot hangs",
		},
		{
			Packages:  []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/machine/probe/hardware/..."},
			Forbidden: []string{"github.com/jaypipes/..."},
			Direct:    true,
			Reason: "ghw hangs if a driver hangs, follows links out of a recorded tree, reads the machine's " +
				"pci.ids and syslog, and prints warnings; internal/machine/probe/hardware prevents that, and " +
				"lists the PCI bus if ghw lists nothing",
		},
		{
			Packages:  []string{"internal/model/tape/...", "internal/fault/..."},
			Forbidden: []string{"!std"},
			Allowed:   []string{module + "internal/fault/...", module + "plugins/contract/..."},
			Reason:    "old recordings must stay readable: a library's upgrade must not change their format",
		},
		{
			Packages: []string{"internal/machine/generation/..."},
			Forbidden: append([]string{
				module + "internal/model/kubelet/...",
				module + "internal/machine/activation/...",
				module + "internal/platform/systemd/...",
				module + "internal/model/desired/...",
				module + "stages/...",
				"k8s.io/...",
			}, steps...),
			Reason: "the promise to change all files or none across a power cut can be tested because this " +
				"package handles only files; code about the kubelet belongs in internal/machine/activation",
		},
		{
			Packages: []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:   append([]string{"internal/testing/demo/..."}, importers...),
			Forbidden: []string{
				module + "internal/machine/probe/cluster/...",
				module + "internal/machine/probe/cri/...",
				module + "internal/machine/probe/hardware/...",
			},
			Direct: true,
			Reason: "only internal/machine/probe and the packages below it may import the packages that read " +
				"cluster, runtime and hardware, so that all reads are found in one place",
		},
		{
			Packages:  []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    append(connectors, importers...),
			Forbidden: []string{module + "internal/platform/systemd/..."},
			Direct:    true,
			Reason: "only internal/machine/probe and the packages below it read from systemd, and only commands and checks " +
				"connect to it (units, notify socket, journal, clock, boot id); every other " +
				"package must declare an interface",
		},
		{
			Packages: []string{"cmd/prelet"},
			Forbidden: []string{
				"github.com/hashicorp/go-plugin/...",
				module + "internal/machine/detector/runner/...",
			},
			Reason: "prelet runs as root: the code that parses a detector's output must run in " +
				"prelet-detect, which is confined and runs as the detector's user",
		},
		{
			Packages: []string{"cmd/prelet", "internal/...", "schema/...", "stages/..."},
			Except: []string{
				"internal/machine/probe/cri/...",
				"internal/machine/detector/runner/...",
				"internal/testing/demo/...",
			},
			Forbidden: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."},
			Direct:    true,
			Reason: "in the process that runs as root, gRPC is allowed only for the container runtime, whose " +
				"socket belongs to root; prelet-detect calls detectors",
		},
		{
			Packages: []string{"cmd/prelet-detect"},
			Forbidden: []string{
				"google.golang.org/grpc/encoding/gzip",
				module + "plugins/conformance/...",
			},
			Reason: "if gzip is registered with grpc-go, a detector can send a decompression bomb; the " +
				"conformance kit is another program",
		},
		{
			Packages: []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except: []string{
				"internal/machine/detector/runner/...",
				"internal/deptest/...",
			},
			Forbidden: []string{
				module + "plugins/proto/...",
				module + "plugins/protocol/...",
				module + "plugins/sdk/...",
				module + "plugins/detectors/...",
				module + "plugins/cmd/...",
			},
			Direct: true,
			Reason: "prelet may import only plugins/contract, which is plain Go, and plugins/sandbox: the protocol " +
				"is for prelet-detect, and a detector is a process of its own",
		},
		{
			Packages: []string{"cmd/prelet"},
			Forbidden: []string{
				"k8s.io/client-go/kubernetes/...",
				"k8s.io/client-go/informers/...",
				"k8s.io/client-go/dynamic/...",
				"k8s.io/cli-runtime/...",
				"k8s.io/api/...",
			},
			Reason: "client-go's rest and clientcmd are enough for two ConfigMaps and a Node; the typed " +
				"clientset makes the binary 43 MB and adds 10 ms to each start, and cli-runtime is for kubectl-prelet",
		},
		{
			Packages: []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:   []string{"internal/machine/probe/cluster/...", "cmd/kubectl-prelet"},
			Forbidden: []string{
				"k8s.io/client-go/rest/...",
				"k8s.io/client-go/tools/...",
				"k8s.io/client-go/transport/...",
				"k8s.io/client-go/plugin/...",
				"k8s.io/client-go/pkg/...",
				"k8s.io/klog/...",
			},
			Direct: true,
			Reason: "only internal/machine/probe/cluster may send requests to the cluster and read kubeconfigs, so " +
				"that its limits, its proxy and its check of the server before credentials are sent " +
				"apply to every request; kubectl-prelet is not part of a boot: it connects as kubectl does",
		},
		{
			Packages: []string{"cmd/kubectl-prelet"},
			Forbidden: []string{
				module + "internal/platform/...",
				module + "internal/machine/...",
				module + "internal/lab/...",
			},
			Reason: "the plugin of kubectl runs on macOS and Windows too, and only reads Nodes",
		},
		{
			Packages: []string{"cmd/prelet", "internal/...", "schema/...", "stages/..."},
			Forbidden: []string{
				"github.com/google/go-cmp/...",
				"github.com/hashicorp/hcl/v2/gohcl",
				"github.com/hashicorp/hcl/v2/hcldec",
			},
			Direct: true, // hclwrite imports go-cmp
			Reason: "only tests may use go-cmp; the language is declared only in schema: gohcl declares blocks " +
				"by struct tags, and hcldec loses ranges, expressions and whether an attribute was set",
		},
		{
			Packages: []string{"cmd/prelet"},
			Forbidden: []string{
				"k8s.io/kubelet/...",
				"k8s.io/component-base/...",
				"github.com/prometheus/...",
			},
			Reason: "the kubelet's types import Prometheus, and a struct writes zeros that override the " +
				"base: KubeletConfiguration is a plain document here",
		},
		{
			Packages: []string{"cmd/prelet"},
			Forbidden: []string{
				"net",
				"net/http",
				"os/exec",
				"k8s.io/...",
				"sigs.k8s.io/...",
				"github.com/zclconf/go-cty/...",
				"github.com/hashicorp/hcl/v2/hclsyntax/...",
				"github.com/coreos/go-systemd/...",
				module + "internal/machine/probe/...",
				module + "internal/platform/...",
				module + "internal/lab/sites/importer",
				module + "internal/model/kubelet/...",
				module + "internal/model/tape",
				module + "schema/...",
				module + "stages/...",
			},
			Direct: true,
			Reason: "a command has only flags, one call, printing and an exit code; everything else belongs in " +
				"internal/lab, or in internal/machine if a boot needs it",
		},
		{
			Packages: []string{
				"internal/machine/...", "internal/plan/...", "internal/platform/...", "internal/model/...",
				"stages/...", "schema/...",
			},
			Forbidden: []string{module + "internal/lab/..."},
			Reason: "a boot contains nothing that only a person asks for: such code is more to read, to load and to " +
				"go wrong before a kubelet starts",
		},
		{
			Packages:  []string{"cmd/prelet", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/machine/probe/hardware/hwtree"},
			Forbidden: []string{"text/template", "html/template"},
			Direct:    true,
			Reason: "templates of the standard library may call any method, so with them the program contains every " +
				"method of every type, 4 MB: use github.com/DataDog/datadog-agent/pkg/template, which calls none",
		},
		{
			Packages:  []string{"cmd/prelet"},
			Forbidden: []string{"testing", "net/http/httptest"},
			Reason:    "code for tests must not be in a program that runs as root",
		},
	}
}

// pluginRules returns the rules of the module in plugins/, which vendors import.
func pluginRules() []Rule {
	return []Rule{
		{
			Packages: []string{"plugins/..."},
			Forbidden: []string{
				module + "internal/...",
				module + "schema/...",
				module + "stages/...",
				"k8s.io/...",
				"sigs.k8s.io/...",
			},
			Reason: "a vendor's detector must not depend on our version of Kubernetes or HCL or on our " +
				"internal packages: its contract is detector.v1 and the SDK",
		},
		{
			Packages:  []string{"plugins/contract/..."},
			Forbidden: []string{"!std"},
			Reason: "prelet and the tests of vendors check with this package, so every start of prelet loads " +
				"all that it imports",
		},
	}
}

// Check returns one message for each package of the graph that breaks the rule, with the chain of imports.
func (r Rule) Check(g Graph) []string {
	var broken []string
	for _, pattern := range r.Packages {
		for _, p := range g.Match(module + pattern) {
			if r.excepts(p.ImportPath) {
				continue
			}
			for _, forbidden := range r.Forbidden {
				chain := g.Chain(p.ImportPath, r.target(forbidden, module+pattern, p))
				if chain != nil {
					broken = append(broken, r.describe(p, forbidden, chain))
				}
			}
		}
	}

	return broken
}

// describe returns the message for a package that reaches a forbidden one through chain.
func (r Rule) describe(p *Package, forbidden string, chain []string) string {
	name := strings.TrimPrefix(p.ImportPath, module)
	path := strings.Join(chain, "\n        → ")

	return fmt.Sprintf("%s must not %s %s: %s\n  it does: %s", name, r.verb(), forbidden, r.Reason, path)
}

func (r Rule) excepts(path string) bool {
	for _, e := range r.Except {
		if Matches(module+e, path) {
			return true
		}
	}
	return false
}

func (r Rule) verb() string {
	if r.Direct {
		return "import"
	}
	return "reach"
}

// target turns a forbidden pattern into the question that Chain asks of every package on its way from one in package.
func (r Rule) target(forbidden, pattern string, from *Package) func(*Package) bool {
	return func(p *Package) bool {
		switch {
		case r.Direct && !slices.Contains(from.Imports, p.ImportPath):
			return false
		case forbidden == "!std":
			return !p.Standard && !Matches(pattern, p.ImportPath) &&
				!slices.ContainsFunc(
					r.Allowed,
					func(a string) bool { return Matches(a, p.ImportPath) },
				)
		}
		return Matches(forbidden, p.ImportPath)
	}
}
