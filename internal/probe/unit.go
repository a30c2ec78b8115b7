package live

import (
	"context"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/systemd"
	"github.com/prelet/prelet/internal/world"
)

// Units tells what systemd has of a unit.
type Units interface {
	Look(ctx context.Context, name string) (systemd.Unit, error)
}

// answerOwner reports whether a user and a group are there.
func (l *Live) answerOwner(r world.OwnerReq) world.Answer {
	if l.o.Hardware != "" {
		return world.Failure(fault.Unread, "which users another machine has is not known", "")
	}

	user, group, _ := strings.Cut(r.Owner, ":")
	if _, err := l.root().FindID(nodefile.Users, user); err != nil {
		return world.Failure(fault.Absent, "user "+user+": "+err.Error(), "")
	}
	if _, err := l.root().FindID(nodefile.Groups, group); err != nil {
		return world.Failure(fault.Absent, "group "+group+": "+err.Error(), "")
	}

	return world.Owner.Answer(world.OwnerAns{})
}

// answerUnit returns what systemd has of a unit. Below another root no unit runs, and prelet writes by itself.
func (l *Live) answerUnit(ctx context.Context, r world.UnitReq) world.Answer {
	if l.isOtherMachine() || l.o.Units == nil {
		return world.Failure(fault.Systemd, "no systemd of this node answers", "")
	}

	u, err := l.o.Units.Look(ctx, r.Name)
	if err != nil {
		return world.Failure(fault.Systemd, err.Error(), "")
	}

	out := describeUnit(u)
	if r.Start && u.Load == "loaded" && len(u.Command) > 0 {
		out.Start = describeStart(u)
	}

	return world.UnitOf.Answer(out)
}

// describeUnit returns what a plan needs of a unit.
func describeUnit(u systemd.Unit) world.UnitAns {
	ans := world.UnitAns{Load: u.Load, Strict: u.ProtectSystem == "strict", Writable: u.Writable}
	if u.Load == "loaded" && (u.NoStart || u.NoStop) {
		ans.Refuses = []string{"restart"}
		if !u.CanReload { // then a reload is a restart
			ans.Refuses = append(ans.Refuses, "reload")
		}
	}

	return ans
}

// describeStart returns how a unit starts its process. A variable may hold a secret, so only those that become words of
// the command line, which everybody reads, are told.
func describeStart(u systemd.Unit) *world.StartAns {
	out := &world.StartAns{Words: u.Command, Vars: map[string]string{}}
	for _, f := range u.EnvironmentFiles {
		out.Files = append(out.Files, f.Path)
	}
	for _, set := range u.Environment {
		name, text, _ := strings.Cut(set, "=")
		if text != "" {
			out.Sets = append(out.Sets, name)
		}
		if slices.Contains(u.Command, "$"+name) || slices.Contains(u.Command, "${"+name+"}") {
			out.Vars[name] = text
		}
	}

	return out
}
