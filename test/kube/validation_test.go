package kube

import (
	"fmt"
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

// validators are the functions that make up ValidateKubeletConfiguration of this version, by module and file; nil: the
// whole file.
func validators() map[string]map[string][]string {
	const folder = "pkg/kubelet/apis/config/validation/"
	return map[string]map[string][]string{
		"k8s.io/kubernetes": {
			folder + "validation.go":                 nil,
			folder + "validation_linux.go":           nil,
			folder + "validation_reserved_memory.go": nil,
		},
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
		"invalid configuration: FeatureGate KubeletCrashLoopBackOffMax is enabled, " +
			"CrashLoopBackOff.MaxContainerRestartPeriod must be set": filled,
		"invalid configuration: podLogsDir was not specified":                                                 filled,
		"invalid configuration: memorySwap.swapBehavior cannot be set when NodeSwap feature flag is disabled": locked,
		"invalid configuration: NodeLogQuery feature gate is required for enableSystemLogQuery":               locked,
		"invalid configuration: ImageMaximumGCAge feature gate is required for Kubelet configuration option " +
			"imageMaximumGCAge": locked,
		"cannot set feature gate %v to %v, feature is PreAlpha at emulated version %s, min compatibility " +
			"version %s": "a kubelet emulates no other version",
		"invalid configuration: pod logs path %q must be absolute path": "one that is not begins at the folder of the file",
		"Non-default format doesn't honor flag: %s":                     "the kubelet has none of klog's flags any more",
	}
}

// trial is what a kubelet complained of on an input, and what prelet said of the same; rule is the one that should
// have found it.
type trial struct {
	rule        string
	minds, said []string
}

// complaints are the errors in a kubelet's log, each in one line and with plain quotes: what klog, cobra and a panic
// print.
func complaints(log string) (out []string) {
	within := false // err=< … >, a line each
	for line := range strings.Lines(log) {
		line = strings.ReplaceAll(strings.TrimSpace(line), `\"`, `"`)
		switch {
		case within && line == ">":
			within = false
		case within:
			out[len(out)-1] += " " + line
		case regexp.MustCompile(`^([EF]\d{4} |Error: |panic: )`).MatchString(line):
			out = append(out, line)
			within = strings.HasSuffix(line, "=<")
		}
	}
	return out
}

// heard compares the complaints of real kubelets, by the rule that found them, with every refusal in Kubernetes' own
// source. A refusal that was never seen, or that prelet did not report for the same input, may lack a rule.
func heard(t *testing.T, ran []trial) {
	t.Helper()
	missing := unheard()
	for _, refusal := range inSource(t) {
		pattern := regexp.MustCompile(pattern(refusal))
		var rules, unsaid []string
		for _, r := range ran {
			for _, words := range pattern.FindAllString(strings.Join(r.minds, "\n"), -1) {
				words = strings.TrimPrefix(words, "invalid configuration: ")
				if slices.ContainsFunc(r.said, func(s string) bool { return containsMessage(s, words) }) {
					rules = append(rules, r.rule)
				} else {
					unsaid = append(unsaid, fmt.Sprintf("%s: %q, and prelet %q", r.rule, words, r.said))
				}
			}
		}
		slices.Sort(rules)
		_, excused := missing[refusal]
		switch {
		case len(rules) == 0 && !excused:
			t.Errorf(
				"no kubelet was made to say %q with the message of a rule of prelet, so it is not known which rule finds it: %s",
				refusal,
				unsaid,
			)
		case len(rules)+len(unsaid) > 0 && excused:
			t.Errorf("%q is said, and listed as never heard", refusal)
		default:
			t.Logf("%-70.70s %s%s", refusal, strings.Join(slices.Compact(rules), " "), missing[refusal])
		}
		delete(missing, refusal)
	}
	for refusal := range missing {
		t.Errorf("%q is not a refusal of this version", refusal)
	}
}

// containsMessage reports whether a message contains the content of a kubelet's message: all fields and flags that this names,
// and most of its words. A list of valid values may be in other words.
func containsMessage(message, kubelet string) bool {
	words := regexp.MustCompile(`[-\w]+(?:\.[-\w]+)*`)
	have, want, found := words.FindAllString(
		message,
		-1,
	), words.FindAllString(
		regexp.MustCompile(`https://\S+`).ReplaceAllString(kubelet, ""),
		-1,
	), 0
	for _, w := range want {
		switch {
		case slices.Contains(have, w):
			found++
		case regexp.MustCompile(`^(--|[a-z]+[A-Z])`).MatchString(w):
			return false
		}
	}
	return 5*found >= 3*len(want)
}

// pattern is a regular expression for what a format prints, where quotes are plain: a number for %d, a text or a list
// of texts in quotes for %q, and for others one word at the beginning and as little as there may be behind it.
func pattern(format string) string {
	out, from := "", 0
	format = strings.ReplaceAll(format, "%%", "%")
	for _, at := range regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`).FindAllStringIndex(format, -1) {
		out += regexp.QuoteMeta(format[from:at[0]])
		if prints, known := map[byte]string{'d': `-?\d+`, 't': `(?:true|false)`, 'q': `(?:"[^"\n]*"|\[[^\]\n]*\])`}[format[at[1]-1]]; known {
			out += prints
		} else if out == "" {
			out += `\S+`
		} else {
			out += `.*?`
		}
		from = at[1]
	}
	return out + regexp.QuoteMeta(format[from:])
}

// inSource lists the formats of the errors that those files make.
func inSource(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	for module, files := range validators() {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		must(t, err)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			f, err := parser.ParseFile(
				gotoken.NewFileSet(),
				filepath.Join(strings.TrimSpace(string(out)), name),
				nil,
				0,
			)
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
				if x, ok := sel.X.(*ast.Ident); !isError || !ok || x.Name != "fmt" && x.Name != "field" ||
					i >= len(call.Args) {
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
				t.Errorf("got %s has no refusals; want found other than %v", name, before)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
