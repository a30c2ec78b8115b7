package kubelet

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/model/kubelet/known"
)

// The help of a real kubelet v1.36.3, its texts shortened, lists just what the tables have for 1.36: the one holds the
// other, and the generator both.
func TestParseHelp(t *testing.T) {
	text, err := os.ReadFile("testdata/help/v1.36.3.txt")
	must(t, err)
	h, err := ParseHelp(string(text))
	must(t, err)
	var current, deprecated []string
	for _, name := range known.Flags(36) {
		switch f, _ := known.FlagAt(name, 36); {
		case name == "h" || f.Hidden:
		case f.Deprecated:
			deprecated = append(deprecated, name)
		default:
			current = append(current, name)
		}
	}
	var alpha, beta []string
	for _, name := range known.Gates(36) {
		g, _ := known.GateAt(name, 36)
		word := name + "=false"
		if g.On {
			word = name + "=true"
		}
		switch g.Stage {
		case "alpha":
			alpha = append(alpha, word)
		case "beta":
			beta = append(beta, word)
		}
	}
	for _, c := range []struct {
		what      string
		got, want []string
	}{{"flags", h.Flags, current}, {"deprecated flags", h.Deprecated, deprecated}, {"alpha gates", h.Alpha, alpha}, {"beta gates", h.Beta, beta}} {
		slices.Sort(c.want)
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: the help has %v, the table %v", c.what, without(c.got, c.want), without(c.want, c.got))
		}
	}
}

func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func TestParseHelpRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":       "",
		"another's":     "Usage:\n  cat [FILE]\n      --show-all   equivalent to -vET\n",
		"an error":      "Error: unknown command\n",
		"far too much":  strings.Repeat("      --config string\n      --kubeconfig string\n", 20000),
		"not indented":  "--config\n--kubeconfig\n",
		"only in words": "see --kubeconfig and --config\n",
	} {
		if h, err := ParseHelp(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, h)
		}
	}
}

func FuzzParseHelp(f *testing.F) {
	f.Add("      --config string   x\n      --kubeconfig string  y (DEPRECATED: z)\n  -h, --help\n")
	f.Add(
		"      --kubeconfig s\n      --config s\n      --feature-gates mapStringBool   Options are:\n        " +
			"A=true|false (ALPHA - default=false)\n",
	)
	f.Fuzz(func(t *testing.T, text string) {
		h, err := ParseHelp(text)
		if err != nil {
			return
		}
		for _, list := range [][]string{h.Flags, h.Deprecated, h.Alpha, h.Beta} {
			if !slices.IsSorted(list) {
				t.Errorf("got %v, want it sorted", list)
			}
			for _, s := range list {
				if strings.ContainsAny(s, " \n\"<>") {
					t.Errorf("got %q, want a name", s)
				}
			}
		}
	})
}

// What the parser of command lines takes for a switch is one in the tables, and the other way round.
func TestSwitches(t *testing.T) {
	oldest, _ := known.Range()
	for m := oldest; m <= known.Newest(); m++ {
		for _, name := range known.Flags(m) {
			if f, _ := known.FlagAt(name, m); f.Bool != isBoolFlag(name) {
				t.Errorf("--%s in 1.%d: want a switch: %t, got %t", name, m, f.Bool, isBoolFlag(name))
			}
		}
	}
}
