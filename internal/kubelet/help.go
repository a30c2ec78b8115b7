package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Help is what a kubelet's --help lists.
type Help struct {
	Flags       []string // without dashes, sorted; those that are not deprecated
	Deprecated  []string
	Alpha, Beta []string // feature gates as NAME=true, their default; sorted
}

// maxHelp bounds the text; that of v1.36.3 has 70 KiB.
const maxHelp = 512 << 10

// ParseHelp reads the text that pflag prints: for each flag a text that begins with its dashes and ends with
// "(DEPRECATED: …)" if it is that; in that of --feature-gates a line for each gate. It fails for a text that is no kubelet's help.
func ParseHelp(text string) (Help, error) {
	var h Help
	if len(text) > maxHelp {
		return h, fmt.Errorf("the help has %d bytes, more than the %d that are read", len(text), maxHelp)
	}
	last, deprecated := "", map[string]bool{}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if _, rest, ok := strings.Cut(trimmed, ", --"); ok && strings.HasPrefix(trimmed, "-") && !strings.HasPrefix(trimmed, "--") {
			trimmed = "--" + rest // -h, --help
		}
		name, found := strings.CutPrefix(trimmed, "--")
		if found && strings.HasPrefix(line, "  ") {
			if end := strings.IndexAny(name, " [="); end > 0 { // --version version[=true]
				name = name[:end]
			}
			if !isFlagName(name) {
				continue
			}
			last = name
			if _, twice := deprecated[name]; !twice {
				deprecated[name] = false
			}
		}
		if last != "" && strings.Contains(line, "(DEPRECATED: ") { // at the end of a text that may have several lines
			deprecated[last] = true
		}
		// The first gate stands on the flag's own line.
		if i := strings.LastIndex(trimmed, "=true|false ("); i > 0 {
			h.gate(trimmed[:i], trimmed[i+len("=true|false ("):])
		}
	}
	for name, is := range deprecated {
		if is {
			h.Deprecated = append(h.Deprecated, name)
		} else {
			h.Flags = append(h.Flags, name)
		}
	}
	for _, list := range []*[]string{&h.Flags, &h.Deprecated, &h.Alpha, &h.Beta} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Contains(h.Flags, "kubeconfig") || !slices.Contains(h.Flags, "config") {
		return Help{}, errors.New("the help lists no --kubeconfig and --config: it is no kubelet's")
	}
	return h, nil
}

// gate reads NAME and "ALPHA - default=false)".
func (h *Help) gate(before, after string) {
	name := before[strings.LastIndexAny(before, " :\n")+1:]
	stage, preset, ok := strings.Cut(after, " - default=")
	preset, _, _ = strings.Cut(preset, ")")
	if !ok || preset != "true" && preset != "false" || !isGateName(name) {
		return
	}
	switch stage {
	case "ALPHA":
		h.Alpha = append(h.Alpha, name+"="+preset)
	case "BETA":
		h.Beta = append(h.Beta, name+"="+preset)
	}
}

func isFlagName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

func isGateName(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}
