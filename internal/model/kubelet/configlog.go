package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// configEntry is the message of the entry in which a kubelet logs its configuration, at any verbosity.
//
// Source: cmd/kubelet/app/server.go, NewKubeletCommand, since 1.37 (kubernetes#139837).
const configEntry = "Effective KubeletConfiguration"

// LoggedConfigSince is the first minor version that logs its configuration.
const LoggedConfigSince = 37

// ParseLoggedConfig returns the configuration that a kubelet has logged at its start: after drop-ins and flags, as
// /configz has it. lines are those of its log, oldest first, in klog's text or JSON format. Of several starts the last
// one counts. It returns nil if the log has no such entry, and an error for an entry that is cut off or is not a
// configuration.
func ParseLoggedConfig(lines []string) (map[string]any, error) {
	text := ""
	isFound, isOpen := false, false

	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		inner, isIndented := strings.CutPrefix(line, "\t")
		switch {
		case isOpen && isIndented:
			text += inner + "\n"
		case isOpen && strings.TrimSpace(line) == ">":
			isOpen = false
		case isConfigHead(line):
			text = ""
			isFound, isOpen = true, true
		case isOpen:
			return nil, errCutOff
		case strings.HasPrefix(line, "{") && strings.Contains(line, configEntry):
			found, err := parseConfigJSON(line)
			if err != nil {
				return nil, err
			}
			if found != "" {
				text = found
				isFound = true
			}
		}
	}

	switch {
	case !isFound:
		return nil, nil
	case isOpen:
		return nil, errCutOff
	}

	c, err := ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("the configuration in the kubelet's log: %w", err)
	}

	return c.Object(), nil
}

var errCutOff = errors.New("the configuration in the kubelet's log is cut off")

// isConfigHead reports whether a line begins the entry in klog's text format: a value of several lines follows, each
// after a tab, until " >".
func isConfigHead(line string) bool {
	_, message, isEntry := strings.Cut(line, "] ")

	return isEntry && strings.HasPrefix(line, "I") && message == `"`+configEntry+`" config=<`
}

// parseConfigJSON returns the configuration of a line in klog's JSON format; "" for other entries.
func parseConfigJSON(line string) (string, error) {
	var entry struct {
		Message string `json:"msg"`
		Config  string `json:"config"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return "", errCutOff // journald splits a line above 48 KiB
	}
	if entry.Message != configEntry {
		return "", nil
	}

	return entry.Config, nil
}
