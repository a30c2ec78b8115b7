package main

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/lab/inspect"
	"github.com/prelet/prelet/internal/model/check"
	"github.com/prelet/prelet/internal/model/texts"
)

// namedCommand matches a command of prelet in a message, with the subcommand that may follow, and --root if it has that
// already.
var namedCommand = texts.LazyRegexp(`\bprelet ([a-z]+)( [a-z]+)?((?: --?[a-z-]+)* --root\b)?`)

// nameRoot returns a message whose commands have the --root of the command that prints it, so that they work on the
// same machine. The packages that make messages do not know it.
func (a *cli) nameRoot(text string) string {
	if a.below == "" || !strings.Contains(text, "prelet ") {
		return text
	}

	text, flag := inspect.BelowRoot(text, a.below)
	all := a.commands()
	var out strings.Builder
	rest := 0
	for _, m := range namedCommand().FindAllStringSubmatchIndex(text, -1) {
		if m[6] >= 0 || all[text[m[2]:m[3]]] == nil || strings.HasPrefix(text[m[3]:], " code/") {
			continue
		}
		c, end := all[text[m[2]:m[3]]](), m[3]
		if m[4] >= 0 {
			if sub, _, err := c.Find([]string{text[m[4]+1 : m[5]]}); err == nil && sub != c {
				c, end = sub, m[5]
			}
		}
		if c.Flags().Lookup("root") == nil {
			continue
		}
		out.WriteString(text[rest:end] + " " + flag)
		rest = end
	}

	return out.String() + text[rest:]
}

func (a *cli) nameRoots(ds hcl.Diagnostics) hcl.Diagnostics {
	if a.below == "" {
		return ds
	}
	out := slices.Clone(ds)
	for i, d := range out {
		named := *d
		named.Detail = a.nameRoot(d.Detail)
		out[i] = &named
	}

	return out
}

func (a *cli) nameRootOf(found []check.Finding) []check.Finding {
	out := slices.Clone(found)
	for i := range out {
		out[i].Why = a.nameRoot(out[i].Why)
		out[i].Do = a.nameRoot(out[i].Do)
	}

	return out
}
