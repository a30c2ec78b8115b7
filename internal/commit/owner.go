package commit

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// LookupOwners returns a function that looks owners up below a root: the names of another root are not those of this
// machine.
func LookupOwners(root string) func(string) (int, int, error) {
	return func(owner string) (int, int, error) {
		u, g, _ := strings.Cut(owner, ":")

		uid, err := nodefile.Root(root).FindID(nodefile.Users, u)
		if err != nil {
			return 0, 0, fmt.Errorf("user %q: %w", u, err)
		}

		gid, err := nodefile.Root(root).FindID(nodefile.Groups, g)
		if err != nil {
			return 0, 0, fmt.Errorf("group %q: %w", g, err)
		}

		return uid, gid, nil
	}
}
