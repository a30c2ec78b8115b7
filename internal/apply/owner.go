package apply

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LookupOwners returns a function that looks names up in /etc/passwd and /etc/group below a root. Other sources may not
// be available at boot, and the names of another root are not those of this machine.
func LookupOwners(root string) func(string) (int, int, error) {
	return func(owner string) (int, int, error) {
		u, g, _ := strings.Cut(owner, ":")

		uid, err := lookupID(filepath.Join("/", root, "etc/passwd"), u)
		if err != nil {
			return 0, 0, fmt.Errorf("user %q: %w", u, err)
		}

		gid, err := lookupID(filepath.Join("/", root, "etc/group"), g)
		if err != nil {
			return 0, 0, fmt.Errorf("group %q: %w", g, err)
		}

		return uid, gid, nil
	}
}

func lookupID(file, name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n, nil
	}

	if name == "root" {
		return 0, nil
	}

	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()

	for s := bufio.NewScanner(f); s.Scan(); {
		if p := strings.Split(s.Text(), ":"); len(p) > 2 && p[0] == name {
			return strconv.Atoi(p[2])
		}
	}

	return 0, fmt.Errorf("there is none in %s", file)
}
