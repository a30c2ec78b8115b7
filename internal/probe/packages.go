package probe

import (
	"context"
	"path"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/world"
)

const (
	// dpkgLists has a list of paths for each package, NAME.list or NAME:ARCHITECTURE.list.
	dpkgLists = "/var/lib/dpkg/info"
	// maxPackageFiles limits the names of that folder. A desktop has 20,000.
	maxPackageFiles = 100_000
)

// answerPackages returns which packages own files, by dpkg's database below the root. The database of rpm needs the
// library of rpm.
func (l *Live) answerPackages(ctx context.Context, r world.PackagesReq) world.Answer {
	names, err := listNames(l.root(), dpkgLists)
	if err != nil {
		return world.Answer{Fault: nodefile.Failure(dpkgLists, err)}
	}

	// On a system with a merged /usr, a list may have the path before the merge.
	wanted := map[string]string{}
	for _, p := range r.Paths {
		wanted[p] = p
		if merged, ok := strings.CutPrefix(p, "/usr"); ok {
			wanted[merged] = p
		}
	}

	out := world.PackagesAns{Owners: map[string]string{}}
	for _, name := range names {
		owner, isList := strings.CutSuffix(name, ".list")
		if !isList {
			continue
		}
		if ctx.Err() != nil {
			return world.Failure(fault.FileUnusable, "dpkg's database was not read in time", "")
		}
		text := l.root().TextIfReadable(path.Join(dpkgLists, name))
		for line := range strings.Lines(text) {
			if p, isWanted := wanted[strings.TrimSuffix(line, "\n")]; isWanted {
				out.Owners[p] = owner
			}
		}
	}

	return world.Packages.Answer(out)
}

// listNames returns the names in a folder of the node.
func listNames(root nodefile.Root, folder string) ([]string, error) {
	look, err := root.Look(folder, nodefile.FollowTrusted)
	if err != nil {
		return nil, err
	}
	defer look.Close()

	return look.Names(maxPackageFiles)
}
