package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

const apache = "Apache-2.0"

const head = `prelet is free software: Copyright The prelet authors, Apache-2.0. The licence is in
/usr/share/common-licenses/Apache-2.0 or in the file LICENSE.

Source: https://` + project + `

The programs contain these libraries, unchanged. The source of each is the Go module of that name and version.
`

// minApache is how many percent of a text must be the Apache licence, for its terms to be no others: the rest is a line
// of copyright.
const minApache = 98

// isApache reports whether the file is the Apache licence and nothing else.
func (t text) isApache() bool {
	cover := licensecheck.Scan([]byte(t.content))
	isOnly := len(cover.Match) == 1 && cover.Percent >= minApache

	return isOnly && cover.Match[0].ID == apache && !cover.Match[0].IsURL
}

// writeCopyright writes the file that a package installs: all libraries, then each licence text once. The text of the
// Apache licence is left out: it is in the deb's /usr/share/common-licenses and in the rpm's LICENSE.
func writeCopyright(out io.Writer, libraries []library) error {
	w := bufio.NewWriter(out)
	fmt.Fprint(w, head+"\n")
	for _, l := range libraries {
		fmt.Fprintf(w, "  %s %s: %s\n", l.path, l.version, strings.Join(l.licences, " AND "))
	}

	users := map[string][]string{} // of a text
	var order []string
	for _, l := range libraries {
		for _, t := range l.texts {
			if t.isApache() {
				continue
			}
			if users[t.content] == nil {
				order = append(order, t.content)
			}
			users[t.content] = append(users[t.content], l.path+" "+t.name)
		}
	}

	for _, content := range order {
		fmt.Fprintf(w, "\n%s\n", strings.Repeat("-", 80))
		for _, user := range users[content] {
			fmt.Fprintln(w, user)
		}
		fmt.Fprintf(w, "\n%s\n", content)
	}

	return w.Flush()
}

// writeLicense writes one SPDX expression for a program: the licences of the project and of all libraries.
func writeLicense(out io.Writer, libraries []library) error {
	licences := []string{apache}
	for _, l := range libraries {
		licences = append(licences, l.licences...)
	}
	slices.Sort(licences)
	_, err := fmt.Fprintln(out, strings.Join(slices.Compact(licences), " AND "))

	return err
}
