// Command release writes what a release contains in addition to its programs, from the programs themselves:
//
//	release copyright PROGRAM...           the licences of all libraries that are linked into them
//	release license PROGRAM...             the same as one SPDX expression
//	release image FOLDER VERSION ARCH=ROOT...
//	                                       an OCI layout of an image; each ROOT is a tar archive of its files
//
// Texts go to standard output. Two runs over the same files give the same bytes.
package main

import (
	"fmt"
	"io"
	"os"
)

const usage = `usage: release copyright PROGRAM...
       release license PROGRAM...
       release image FOLDER VERSION ARCH=ROOT...`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) >= 2 && args[0] == "copyright":
		libraries, err := readPrograms(args[1:])
		if err != nil {
			return err
		}
		return writeCopyright(out, libraries)

	case len(args) >= 2 && args[0] == "license":
		libraries, err := readPrograms(args[1:])
		if err != nil {
			return err
		}
		return writeLicense(out, libraries)

	case len(args) >= 4 && args[0] == "image":
		return writeImage(args[1], args[2], args[3:])
	}

	return fmt.Errorf("wrong arguments %q\n%s", args, usage)
}
