package kubelet

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/tape"
)

// maxHelp is the largest accepted text in bytes; that of v1.36.3 has 70 KiB.
const maxHelp = 512 << 10

// ParseHelp parses the text that pflag prints: for each flag a text that begins with its dashes and contains
// "(DEPRECATED: " if it is deprecated; for --feature-gates a line per gate. The lists are sorted. It fails for a text
// that is not a kubelet's help.
func ParseHelp(text string) (*tape.AcceptsAns, error) {
	if len(text) > maxHelp {
		return nil, fmt.Errorf("the help has %d bytes, the limit is %d", len(text), maxHelp)
	}

	h := &tape.AcceptsAns{}
	last := ""
	isDeprecated := map[string]bool{}
	for line := range strings.Lines(text) {
		if name := parseHelpFlag(line); name != "" {
			last = name
			if _, isListed := isDeprecated[name]; !isListed {
				isDeprecated[name] = false
			}
		}
		// A flag's text may have several lines.
		if last != "" && strings.Contains(line, "(DEPRECATED: ") {
			isDeprecated[last] = true
		}
		// The first gate is on the flag's own line.
		if i := strings.LastIndex(line, "=true|false ("); i > 0 {
			addGate(h, line[:i], line[i+len("=true|false ("):])
		}
	}
	for name, deprecated := range isDeprecated {
		if deprecated {
			h.Deprecated = append(h.Deprecated, name)
		} else {
			h.Flags = append(h.Flags, name)
		}
	}
	lists := []*[]string{&h.Flags, &h.Deprecated, &h.Alpha, &h.Beta}
	for _, list := range lists {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if !slices.Contains(h.Flags, "kubeconfig") || !slices.Contains(h.Flags, "config") {
		return nil, errors.New("not a kubelet's help: --kubeconfig or --config is missing")
	}

	return h, nil
}

// parseHelpFlag returns the name of the flag that a line begins with; "" if it does not.
func parseHelpFlag(line string) string {
	if !strings.HasPrefix(line, "  ") {
		return ""
	}
	text := strings.TrimSpace(line)
	_, long, hasShort := strings.Cut(text, ", --") // -h, --help
	if hasShort && strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") {
		text = "--" + long
	}
	name, isFlag := strings.CutPrefix(text, "--")
	if end := strings.IndexAny(name, " [="); end > 0 { // --version version[=true]
		name = name[:end]
	}
	if !isFlag || !isNameOf(name, letters+digits+"-_") {
		return ""
	}

	return name
}

// addGate parses NAME and "ALPHA - default=false)".
func addGate(h *tape.AcceptsAns, before, after string) {
	name := before[strings.LastIndexAny(before, " :\n")+1:]
	stage, preset, _ := strings.Cut(after, " - default=")
	preset, _, _ = strings.Cut(preset, ")")
	isBool := preset == "true" || preset == "false"
	if !isBool || !isNameOf(name, letters+digits) {
		return
	}
	switch stage {
	case "ALPHA":
		h.Alpha = append(h.Alpha, name+"="+preset)
	case "BETA":
		h.Beta = append(h.Beta, name+"="+preset)
	}
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

func isNameOf(s, valid string) bool {
	return s != "" && len(s) <= 100 && strings.Trim(s, valid) == ""
}
