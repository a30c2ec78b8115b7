package kube

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// validators are the functions that ValidateKubeletConfiguration of the version at hand consists of, by module and file; nil: all of the file.
func validators() map[string]map[string][]string {
	const folder = "pkg/kubelet/apis/config/validation/"
	return map[string]map[string][]string{
		"k8s.io/kubernetes": {folder + "validation.go": nil, folder + "validation_linux.go": nil, folder + "validation_reserved_memory.go": nil},
		"k8s.io/component-base": {
			"featuregate/feature_gate.go": {"unsafeSetFromMap"},
			"logs/api/v1/options.go":      {"Validate", "validateTextOptions", "validateJSONOptions"},
			"metrics/api/v1/config.go":    {"validateShowHiddenMetricsVersion"},
			"tracing/api/v1/config.go":    {"validateSamplingRate", "validateEndpoint"},
		},
	}
}

// unheard are refusals in those files that no file of a site can provoke in this version, and why.
func unheard() map[string]string {
	const filled, locked = "the default is filled in before", "its gate is locked on in this version"
	return map[string]string{
		"invalid configuration: FeatureGate KubeletCrashLoopBackOffMax is enabled, CrashLoopBackOff.MaxContainerRestartPeriod must be set": filled,
		"invalid configuration: memoryThrottlingFactor is required when MemoryQoS feature flag is enabled":                                 filled,
		"invalid configuration: podLogsDir was not specified":                                                                              filled,
		"invalid configuration: memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled":                              locked,
		"invalid configuration: NodeLogQuery feature gate is required for enableSystemLogQuery":                                            locked,
		"invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge":             locked,
		"cannot set feature gate %v to %v, feature is PreAlpha at emulated version %s, min compatibility version %s":                       "a kubelet emulates no other version",
		"invalid configuration: pod logs path %q must be absolute path":                                                                    "one that is not begins at the folder of the file",
		"Feature %s is disabled":                    "alpha options of logs are taken without their gate, as refusals.yaml shows",
		"Log format %s is disabled, see %s feature": "json is stable",
		"Non-default format doesn't honor flag: %s": "the kubelet has none of klog's flags any more",
	}
}

// heard holds what real kubelets said, by the rule that found it, against every refusal in Kubernetes' own source: one that
// nobody has heard is one that may have no rule.
func heard(t *testing.T, logs map[string][]string) {
	t.Helper()
	missing := unheard()
	for _, refusal := range inSource(t) {
		words := regexp.MustCompile(pattern(refusal))
		var rules []string
		for _, rule := range slices.Sorted(maps.Keys(logs)) {
			if slices.ContainsFunc(logs[rule], words.MatchString) {
				rules = append(rules, rule)
			}
		}
		_, excused := missing[refusal]
		switch {
		case len(rules) == 0 && !excused:
			t.Errorf("no kubelet was made to say %q, so nobody knows which rule finds it", refusal)
		case len(rules) > 0 && excused:
			t.Errorf("%q is said, and listed as never heard", refusal)
		default:
			t.Logf("%-70.70s %s%s", refusal, strings.Join(rules, " "), missing[refusal])
		}
		delete(missing, refusal)
	}
	for refusal := range missing {
		t.Errorf("%q is no refusal of this version", refusal)
	}
}

// pattern is a regular expression for what a format prints. Quotes are as in a log, and %w and the like are anything.
func pattern(format string) string {
	parts := regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`).Split(strings.ReplaceAll(format, "%%", "%"), -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return strings.Join(parts, `.*`)
}

// inSource lists the formats of the errors that those files make.
func inSource(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for module, files := range validators() {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		must(t, err)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			f, err := parser.ParseFile(gotoken.NewFileSet(), filepath.Join(strings.TrimSpace(string(out)), name), nil, 0)
			must(t, err)
			before := len(found)
			ast.Inspect(f, func(n ast.Node) bool {
				if fn, ok := n.(*ast.FuncDecl); ok {
					return files[name] == nil || slices.Contains(files[name], fn.Name.Name)
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at := map[string]int{"Errorf": 0, "Invalid": 2, "Forbidden": 1, "Required": 1}
				i, isError := at[sel.Sel.Name]
				if x, ok := sel.X.(*ast.Ident); !isError || !ok || x.Name != "fmt" && x.Name != "field" || i >= len(call.Args) {
					return true
				}
				arg := call.Args[i]
				if inner, ok := arg.(*ast.CallExpr); ok && len(inner.Args) > 0 { // fmt.Sprintf, or err.Error()
					arg = inner.Args[0]
				}
				if lit, ok := arg.(*ast.BasicLit); ok {
					text, err := strconv.Unquote(lit.Value)
					must(t, err)
					found[text] = true
				}
				return true
			})
			if len(found) == before {
				t.Errorf("%s has no refusals", name)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
