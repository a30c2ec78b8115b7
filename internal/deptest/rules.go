package deptest

import (
	"fmt"
	"slices"
	"strings"
)

// module is the import path that every path of ours begins with.
const module = "github.com/prelet/prelet/"

// Rule forbids one set of packages to reach another, over any number of imports.
type Rule struct {
	Rooms     []string // patterns of our own packages, below the module
	Except    []string // patterns taken out of Rooms
	Forbidden []string // patterns of import paths; "!std" is everything outside the standard library and the room itself
	Allowed   []string // patterns of what "!std" lets pass as well
	Direct    bool     // only what a package imports itself counts, not what that reaches
	Reason    string
}

// pure are the rooms of the function (site, world) → node, and of what explains it. Site files come in by an fs.FS.
var pure = []string{
	"internal/boot/...", "internal/lang/...", "stages/...", "schema/...",
	"internal/node/...", "internal/lang/value/...", "internal/lang/origin/...", "internal/fault/...", "internal/world/...",
}

// importers are the rooms that touch the cluster, the runtime, the hardware and systemd, and the rooms that import them.
var importers = []string{
	"internal/probe/...", "internal/probe/joined/...", "internal/probe/kubeletstate/...",
	"internal/probe/cluster/...", "internal/probe/cri/...", "internal/probe/hardware/...", "internal/platform/systemd/...",
}

// rules returns the walls. `os` is not in it: fmt itself reaches os. That no pure room *writes* `import "os"` is for
// the linter to say; that none can dial or start a program is said here.
func rules() []Rule {
	return []Rule{
		{
			Rooms:     pure,
			Forbidden: []string{"net", "net/http/...", "crypto/tls"},
			Reason: "same site, same answers → same plan: what is read from outside is a question on the tape, asked by internal/probe. " +
				"Label and taint syntax come from k8s.io/apimachinery/pkg/api/validate/content and quantities from pkg/api/resource, " +
				"which do not reach net; util/validation, labels and meta/v1 do",
		},
		{
			Rooms:     pure,
			Forbidden: []string{"os/exec", "os/signal", "plugin"},
			Reason:    "only internal/detector starts a program, and only as an answer to a question; a decision that can start one is not a function",
		},
		{
			Rooms:     pure,
			Forbidden: []string{module + "internal/probe/...", module + "internal/probe/cluster/...", module + "internal/probe/cri/...", module + "internal/probe/hardware/...", module + "internal/platform/systemd/...", module + "internal/commit/activation/...", module + "internal/detector/..."},
			Reason:    "these touch the node; a plan is made on a laptop from a recording by the same code, without them",
		},
		{
			Rooms:     []string{"internal/probe/hardware/..."},
			Forbidden: []string{module + "internal/probe/cluster/..."},
			Reason:    "facts are read from files",
		},
		{
			Rooms:     []string{"internal/probe/hardware/..."},
			Forbidden: []string{"os/exec", "net/http/..."},
			Direct:    true, // ghw imports both, for ethtool and for fetching pci.ids, which its options switch off
			Reason:    "facts are read from files: a tool of this machine says nothing of a recorded one, and a tool that hangs would hang the boot",
		},
		{
			Rooms:     []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/probe/hardware/..."},
			Forbidden: []string{"github.com/jaypipes/..."},
			Direct:    true,
			Reason: "ghw hangs with a driver, follows links out of a recorded tree, reads pci.ids and the syslog of the machine and prints warnings; " +
				"internal/probe/hardware keeps it from that and lists the PCI bus where ghw lists nothing",
		},
		{
			Rooms:     []string{"internal/world/...", "internal/fault/..."},
			Forbidden: []string{"!std"},
			Allowed:   []string{module + "internal/fault/..."},
			Reason:    "a recording is read for ever: its format must not change because a library did",
		},
		{
			Rooms:     []string{"internal/commit/generation/..."},
			Forbidden: []string{module + "internal/kubelet/...", module + "internal/commit/activation/...", module + "internal/platform/systemd/...", module + "internal/boot/...", module + "stages/...", "k8s.io/..."},
			Reason:    "all files or none across a power cut is provable because this room knows files only; what a kubelet thinks of them is for internal/commit/activation",
		},
		{
			Rooms:     []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    append([]string{"internal/demo/..."}, importers...),
			Forbidden: []string{module + "internal/probe/cluster/...", module + "internal/probe/cri/...", module + "internal/probe/hardware/..."},
			Direct:    true,
			Reason: "internal/probe, internal/probe/joined and internal/probe/kubeletstate are the only importers of the rooms that touch cluster, " +
				"runtime and hardware: few places to look for what prelet reads",
		},
		{
			Rooms:     []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    append([]string{"internal/demo/...", "internal/app/..."}, importers...),
			Forbidden: []string{module + "internal/platform/systemd/..."},
			Direct:    true,
			Reason: "internal/probe, internal/probe/joined and internal/probe/kubeletstate read from systemd, and internal/app connects a command " +
				"to it (units, notify socket, journal, clock, boot id); every other room takes what it needs as an interface",
		},
		{
			Rooms:     []string{"cmd/prelet"},
			Forbidden: []string{"github.com/hashicorp/go-plugin/...", module + "internal/detector/runner/..."},
			Reason:    "prelet runs as root: what parses a detector's bytes runs in prelet-detect, confined and as the detector's user",
		},
		{
			Rooms:     []string{"cmd/prelet", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/probe/cri/...", "internal/detector/runner/...", "internal/detector/hostile/...", "internal/demo/..."},
			Forbidden: []string{"google.golang.org/grpc/...", "google.golang.org/protobuf/..."},
			Direct:    true,
			Reason:    "in the process that runs as root, gRPC is for the container runtime only, whose socket is root's; a detector is asked by prelet-detect",
		},
		{
			Rooms:     []string{"cmd/prelet-detect"},
			Forbidden: []string{"google.golang.org/grpc/encoding/gzip", module + "plugins/conformance/..."},
			Reason:    "gzip registered with grpc-go would let a detector answer with a decompression bomb; the conformance kit is another program",
		},
		{
			Rooms:     []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/detector/runner/...", "internal/detector/hostile/...", "internal/deptest/..."},
			Forbidden: []string{module + "plugins/proto/...", module + "plugins/protocol/...", module + "plugins/sdk/...", module + "plugins/detectors/...", module + "plugins/cmd/..."},
			Direct:    true,
			Reason:    "of what vendors use, prelet shares plugins/contract: plain Go. The protocol is for prelet-detect, and a detector is a process",
		},
		{
			Rooms:     []string{"cmd/prelet"},
			Forbidden: []string{"k8s.io/client-go/kubernetes/...", "k8s.io/client-go/informers/...", "k8s.io/client-go/dynamic/...", "k8s.io/api/..."},
			Reason:    "client-go's rest and clientcmd make every request; the typed clientset on top makes the binary 43 MB and costs 10 ms at start, for two ConfigMaps and a Node",
		},
		{
			Rooms:     []string{"cmd/...", "internal/...", "schema/...", "stages/..."},
			Except:    []string{"internal/probe/cluster/..."},
			Forbidden: []string{"k8s.io/client-go/rest/...", "k8s.io/client-go/tools/...", "k8s.io/client-go/transport/...", "k8s.io/client-go/plugin/...", "k8s.io/client-go/pkg/...", "k8s.io/klog/..."},
			Direct:    true,
			Reason:    "internal/probe/cluster is the one place that asks the cluster and reads kubeconfigs: its limits, its proxy and its rule of identity before credentials hold for every request",
		},
		{
			Rooms:     []string{"cmd/prelet", "internal/...", "schema/...", "stages/..."},
			Forbidden: []string{"github.com/google/go-cmp/...", "github.com/hashicorp/hcl/v2/gohcl"},
			Direct:    true, // hclwrite imports go-cmp
			Reason:    "go-cmp is for tests; gohcl reads struct tags, and the language is declared once, in schema",
		},
		{
			Rooms:     []string{"cmd/prelet"},
			Forbidden: []string{"k8s.io/kubelet/...", "k8s.io/component-base/...", "github.com/prometheus/..."},
			Reason:    "the kubelet's types bring Prometheus, and a struct writes zeros that override the base: KubeletConfiguration is a document here",
		},
		{
			Rooms:     []string{"cmd/..."},
			Forbidden: []string{module + "internal/detector/hostile/..."},
			Reason:    "what exists for tests does not ship",
		},
		{
			Rooms:     []string{"cmd/prelet"},
			Forbidden: []string{"testing", "net/http/httptest", module + "internal/demo/...", module + "internal/deptest/..."},
			Reason:    "what exists for tests and for the demo does not ship in a binary that runs as root",
		},
	}
}

// pluginRules are for the module in plugins/, which vendors import.
func pluginRules() []Rule {
	return []Rule{{
		Rooms:     []string{"plugins/..."},
		Forbidden: []string{module + "internal/...", module + "schema/...", module + "stages/...", "k8s.io/...", "sigs.k8s.io/..."},
		Reason:    "a vendor's detector must not inherit our Kubernetes, our HCL, nor our changes: its contract is detector.v1 and the SDK",
	}, {
		Rooms:     []string{"plugins/contract/..."},
		Forbidden: []string{"!std"},
		Reason:    "prelet checks with the same code as a vendor's tests; what that needs, every start of prelet pays",
	}}
}

// siblings returns, for each stage type, the rule that it knows no other.
func siblings(types []string) []Rule {
	var out []Rule
	for _, one := range types {
		r := Rule{
			Rooms:  []string{"stages/" + one + "/..."},
			Reason: "stages speak through the site's references only: what one knows of another, no user could see in the graph",
		}
		for _, other := range append([]string{"builtin"}, types...) {
			if other != one {
				r.Forbidden = append(r.Forbidden, module+"stages/"+other+"/...")
			}
		}
		out = append(out, r)
	}
	return out
}

// Check returns one message for each package of the graph that breaks the rule, with the way it gets there.
func (r Rule) Check(g Graph) []string {
	var broken []string
	for _, room := range r.Rooms {
		for _, p := range g.Match(module + room) {
			if r.excepts(p.ImportPath) {
				continue
			}
			for _, forbidden := range r.Forbidden {
				if chain := g.Chain(p.ImportPath, r.target(forbidden, module+room, p)); chain != nil {
					broken = append(broken, fmt.Sprintf("%s must not %s %s: %s\n  it does: %s",
						strings.TrimPrefix(p.ImportPath, module), r.verb(), forbidden, r.Reason, strings.Join(chain, "\n        → ")))
				}
			}
		}
	}
	return broken
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

// target turns a forbidden pattern into the question that Chain asks of every package on its way from one in room.
func (r Rule) target(forbidden, room string, from *Package) func(*Package) bool {
	return func(p *Package) bool {
		switch {
		case r.Direct && !slices.Contains(from.Imports, p.ImportPath):
			return false
		case forbidden == "!std":
			return !p.Standard && !Matches(room, p.ImportPath) &&
				!slices.ContainsFunc(r.Allowed, func(a string) bool { return Matches(a, p.ImportPath) })
		}
		return Matches(forbidden, p.ImportPath)
	}
}
