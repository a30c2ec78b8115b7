// Package cli has the common parts of the commands of a detector and of the conformance kit: exit statuses, the flag
// --config and JSON output. It must not know the protocol.
package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit statuses.
const (
	OK     = 0
	Failed = 1
	Usage  = 64
)

// NewFlags returns a set of flags that prints nothing.
func NewFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)

	return flags
}

// AddConfig adds a flag that sets config to a JSON object: its value, or the content of the file that the value names
// after @.
func AddConfig(flags *flag.FlagSet, name string, config *map[string]any) {
	flags.Func(name, "", func(value string) error {
		text := []byte(value)
		if file, isFile := strings.CutPrefix(value, "@"); isFile {
			var err error
			if text, err = os.ReadFile(file); err != nil {
				return err
			}
		}
		if err := json.Unmarshal(text, config); err != nil {
			return fmt.Errorf("want a JSON object: %w", err)
		}

		return nil
	})
}

// PrintJSON writes indented JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)

	return e.Encode(v)
}
