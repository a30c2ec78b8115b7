package probe

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"path"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

const (
	// dpkgLists has a list of paths for each package, NAME.list or NAME:ARCHITECTURE.list.
	dpkgLists = "/var/lib/dpkg/info"
	// maxPackageFiles limits the names of that folder. A desktop has 20,000.
	maxPackageFiles = 100_000

	rpmProgram = "/usr/bin/rpm"
	// rpmTimeout limits all calls of rpm, which waits while another process changes its database.
	rpmTimeout = 5 * time.Second
)

// answerPackages returns which packages own files, by dpkg's database below the root or, on the running node, by rpm.
// Only rpm reads its own database, and no program below another root is started.
func (l *Live) answerPackages(ctx context.Context, r tape.PackagesReq) tape.Answer {
	names, err := l.root().Names(dpkgLists, maxPackageFiles)
	isMissing := errors.Is(err, fs.ErrNotExist)
	if _, missing := nodefile.Stat(rpmProgram); isMissing && missing == nil && !l.isOtherMachine() {
		return tape.Packages.Answer(tape.PackagesAns{Owners: askRPM(ctx, rpmProgram, r.Paths)})
	}
	if err != nil {
		return tape.Answer{Fault: nodefile.Failure(dpkgLists, err)}
	}

	// On a system with a merged /usr, a list may have the path before the merge.
	wanted := map[string]string{}
	for _, p := range r.Paths {
		wanted[p] = p
		if merged, ok := strings.CutPrefix(p, "/usr"); ok {
			wanted[merged] = p
		}
	}

	out := tape.PackagesAns{Owners: map[string]string{}}
	for _, name := range names {
		owner, isList := strings.CutSuffix(name, ".list")
		if !isList {
			continue
		}
		if ctx.Err() != nil {
			return tape.Failure(fault.FileUnusable, "dpkg's database was not read in time", "")
		}
		text := l.root().TextIfReadable(path.Join(dpkgLists, name))
		for line := range strings.Lines(text) {
			if p, isWanted := wanted[strings.TrimSuffix(line, "\n")]; isWanted {
				out.Owners[p] = owner
			}
		}
	}

	return tape.Packages.Answer(out)
}

// askRPM returns which packages own files. A file has none if rpm does not know it, or does not answer in time.
func askRPM(ctx context.Context, program string, paths []string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, rpmTimeout)
	defer cancel()

	owners := map[string]string{}
	for _, p := range paths {
		cmd := exec.CommandContext(ctx, program, "-qf", "--queryformat", `%{NAME}\n`, p)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		if name, _, _ := strings.Cut(string(out), "\n"); err == nil && name != "" {
			owners[p] = name
		}
	}

	return owners
}
