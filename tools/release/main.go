// Command release writes an OCI layout of prelet's image: release FOLDER VERSION ARCH=ROOT..., where each ROOT is a tar
// archive of the image's files. Two runs over the same files give the same bytes.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("wrong arguments %q\nusage: release FOLDER VERSION ARCH=ROOT...", args)
	}

	return writeImage(args[0], args[1], args[2:])
}
