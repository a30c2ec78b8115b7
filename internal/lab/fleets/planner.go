package fleets

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab"
	"github.com/prelet/prelet/internal/lab/fleet"
	"github.com/prelet/prelet/internal/lab/fleets/revision"
	"github.com/prelet/prelet/internal/lab/planning"
	"github.com/prelet/prelet/internal/lab/printer"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/evaluate"
	"github.com/prelet/prelet/internal/plan/lang"
	"github.com/prelet/prelet/internal/platform/nodefile"
)

// fleetPlanner plans many machines with the same options. It is safe for concurrent use.
type fleetPlanner struct {
	env     *machine.Env
	planned *lab.Given
	against []*lab.Given // none: the disks
	each    bool         // see PlanOptions
	advises bool         // see evaluate.RunInput
}

// planFleet plans each recording, or the node of o.Request if there is none, and groups them by effect.
func planFleet(
	ctx context.Context, e *machine.Env,
	o PlanOptions,
	sources []string,
	show func(planning.Planned) error,
) (Plans, error) {
	shard, err := parseShard(o.Shard)
	if err != nil {
		return Plans{}, err
	}
	planner, err := newFleetPlanner(ctx, e, o)
	if err != nil {
		return Plans{}, err
	}

	plans := Plans{Reports: []*fleet.FleetEffect{fleet.NewReport(e.Version)}}
	for range max(0, len(planner.against)-1) {
		plans.Reports = append(plans.Reports, fleet.NewReport(e.Version))
	}
	for i, report := range plans.Reports {
		report.Site = hashSite(planner.planned)
		if len(planner.against) > 0 {
			report.Against = o.Against[i]
			report.AgainstSite = hashSite(planner.against[i])
		}
		report.Shard = shard
		if shard != nil {
			report.Inputs = hashOptions(planner.planned)
		}
	}

	add := func(p planning.Planned, effects []fleet.Effect) error {
		for i, report := range plans.Reports {
			report.Add(effects[i])
		}
		if o.Each {
			return show(p)
		}
		return nil
	}
	if sources == nil {
		p, effects := planner.planOne(ctx, o.From)
		if p.Err != nil {
			return Plans{}, p.Err
		}
		err = add(p, effects)
	} else {
		err = planner.planAll(ctx, selectShard(sources, shard), add)
	}
	for _, report := range plans.Reports {
		report.Finish()
		plans.Code = fault.Lower(plans.Code, report.Code())
		plans.Changes = plans.Changes || report.Changed+report.Incomplete > 0
		plans.Noted = plans.Noted || slices.ContainsFunc(report.Groups, func(g fleet.Group) bool {
			return len(g.Messages) > 0
		})
	}
	plans.Changes = plans.Changes && plans.Code == ""

	return plans, err
}

func newFleetPlanner(ctx context.Context, e *machine.Env, o PlanOptions) (*fleetPlanner, error) {
	given, err := lab.Read(e, o.Request)
	if err != nil {
		return nil, err
	}
	p := &fleetPlanner{env: e, planned: given, each: o.Each}
	for _, against := range o.Against {
		if err := p.loadAgainst(ctx, against); err != nil {
			return nil, err
		}
	}

	return p, nil
}

// How often garbage is collected while a fleet is planned: as a percentage of the live heap, and more often above a
// size in bytes.
const (
	fleetGCPercent = 600
	fleetMemory    = 100 << 20
)

// collectLessOften sets both, and returns a function that takes them back. Each plan leaves megabytes of garbage next
// to a small live heap: collecting less often saves a fifth of the time, and the limit keeps the memory of any fleet
// bounded.
func collectLessOften() (restore func()) {
	percent := debug.SetGCPercent(fleetGCPercent)
	limit := debug.SetMemoryLimit(fleetMemory)

	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}

// planAll plans the recordings in parallel, and passes each to add in their order.
func (p *fleetPlanner) planAll(
	ctx context.Context,
	sources []string,
	add func(planning.Planned, []fleet.Effect) error,
) error {
	defer collectLessOften()()

	type machine struct {
		planned planning.Planned
		effects []fleet.Effect
	}
	plan := func(ctx context.Context, source string) (m machine) {
		m.planned, m.effects = p.planListed(ctx, source)
		if !p.each { // only the effects are used
			m.planned = planning.Planned{}
		}
		return m
	}

	return lab.InOrder(
		ctx,
		p.env,
		sources,
		plan,
		func(m machine) error { return add(m.planned, m.effects) },
	)
}

// planListed plans one recording of a folder, unless the folder has it twice.
func (p *fleetPlanner) planListed(ctx context.Context, source string) (planning.Planned, []fleet.Effect) {
	plain, isPacked := strings.CutSuffix(source, ".gz")
	if _, err := nodefile.Lstat(plain); isPacked && err == nil {
		err := fault.RecordingInvalid.Errorf("--from %s: the folder also has %s; remove one of them",
			source, filepath.Base(plain))
		return p.refuseRecording(source, err)
	}

	return p.planOne(ctx, source)
}

// refuseRecording returns the result of a recording that cannot be planned.
func (p *fleetPlanner) refuseRecording(source string, err error) (planning.Planned, []fleet.Effect) {
	failed := []fleet.Effect{fleet.FailedToRead(source, err)}

	return planning.Planned{View: printer.View{Source: source}, Err: err}, slices.Repeat(failed, max(1, len(p.against)))
}

// planOne plans one recording, or the node of the options where source is "".
func (p *fleetPlanner) planOne(ctx context.Context, source string) (planned planning.Planned, effects []fleet.Effect) {
	err := p.withPlans(ctx, source, func(m machinePlans) {
		planned = planning.Planned{View: m.view}
		for _, old := range m.old {
			effects = append(effects, fleet.NewEffect(source, old, m.planned, m.recording))
		}
	})
	if err != nil {
		return p.refuseRecording(source, err)
	}

	return planned, effects
}

type machinePlans struct {
	planned   *evaluate.Plan
	old       []*evaluate.Plan // of each older site; nil in place of the only one: there is none
	view      printer.View
	recording *tape.Recording // of this node, the answers of the plan
}

// withPlans plans one recording, or the node of the options where source is "", and calls a function while it is open.
// A failure of prelet itself over one recording does not end the report of the others.
func (p *fleetPlanner) withPlans(ctx context.Context, source string, use func(machinePlans)) (err error) {
	defer func() {
		if failed := recover(); failed != nil {
			err = fault.Internal.Errorf("a bug in prelet: %v; report it with this recording", failed)
		}
	}()

	env := p.env.WithOwnRedactor()
	n, err := lab.OpenMachine(env, p.planned, source, nil)
	if err != nil {
		return err
	}
	defer n.Close()
	m := machinePlans{recording: n.Recorded}
	n.Options.Advises = p.advises
	m.planned = n.PlanUnless(ctx)
	m.view = n.View(m.planned, source)
	for _, against := range p.against {
		old := lab.OpenWorld(env, against.At(source), n.Recorded, nil)
		defer old.Close()
		m.old = append(m.old, old.PlanUnless(ctx))
	}
	if m.old == nil {
		m.old = []*evaluate.Plan{nil}
	}
	if m.recording == nil {
		m.recording = &tape.Recording{}
		if m.planned.Tape != nil {
			m.recording.Entries = m.planned.Tape.Entries()
		}
	}
	use(m)

	return nil
}

// hashSite returns the hash of the site's files; "" for the sites of recordings.
func hashSite(g *lab.Given) string {
	if g.Loaded == nil {
		return ""
	}

	return g.Loaded.Site.Digest()
}

// hashOptions returns a hash of the options that must be equal in all parts of a fleet, without the values of variables
// from files, which may be secrets.
func hashOptions(g *lab.Given) string {
	inputs := []string{g.From, g.Objects, g.KubeletVersion}
	for _, name := range slices.Sorted(maps.Keys(g.Values)) {
		inputs = append(inputs, name)
		if !g.Values[name].IsFile {
			inputs = append(inputs, g.Values[name].Text)
		}
	}

	return nodefile.Checksum(fmt.Appendf(nil, "%q", inputs))[:12]
}

// maxShards bounds the number of parts.
const maxShards = 1 << 20

// parseShard parses I/N, where I counts from 0 as JOB_COMPLETION_INDEX does; nil for "".
func parseShard(text string) (*fleet.Shard, error) {
	if text == "" {
		return nil, nil
	}
	index, of, _ := strings.Cut(text, "/")
	i, err := strconv.Atoi(index)
	n, errOf := strconv.Atoi(of)
	if err != nil || errOf != nil || i < 0 || i >= n || n > maxShards {
		return nil, fault.Usage.Errorf(
			"--shard %s: write I/N, the number of this part and how many there are, at most %d: 0/4 to 3/4",
			text, maxShards)
	}

	return &fleet.Shard{Index: i, Of: n}, nil
}

// selectShard returns the recordings of one part. The part of a recording depends only on its name, so that a file that
// appears while the parts run is in one of them at most.
func selectShard(sources []string, shard *fleet.Shard) (out []string) {
	if shard == nil {
		return sources
	}
	for _, source := range sources {
		h := fnv.New32a()
		_, _ = h.Write([]byte(filepath.Base(source)))
		if int(h.Sum32()%uint32(shard.Of)) == shard.Index {
			out = append(out, source)
		}
	}

	return out
}

// loadAgainst loads the site to compare with: a path, or the files of the site at a revision of git. Errors in it are
// those of the command: nothing can be compared with it.
func (p *fleetPlanner) loadAgainst(ctx context.Context, against string) error {
	w := lab.Request{
		Where:    machine.Where{Config: []string{against}, Files: lang.OS(), IsPast: true},
		Registry: p.planned.Registry,
	}
	if isMissing(against) {
		w.Config = strings.Split(against, ",")
	}
	if err := w.UseReferences(ctx, p.env); err != nil {
		return err
	}
	if p.planned.Root == "" {
		if err := w.UseOwnRepository(p.env, lang.OS()); err != nil {
			return err
		}
	}
	isLost := func(path string) bool { return isMissing(path) && !w.IsPulled(path) }
	if slices.ContainsFunc(w.Config, isLost) || strings.HasPrefix(against, revision.Prefix) {
		old, err := revision.Read(ctx, against, p.planned.Config)
		if err != nil {
			return err
		}
		for _, path := range old.Missing {
			p.env.Say(fmt.Sprintf("--against %s: %s has no file at this revision, so all of it is new", against, path))
		}
		w.Config = old.Paths
		w.Files = old
	}

	site := p.env.Load(w.SiteFiles())
	if site.Diags.HasErrors() {
		return &lab.Explained{
			Err:      origin.Code(site.Diags).Errorf("--against %s: the site to compare with has errors", against),
			Messages: site.Diags,
		}
	}
	older := &lab.Given{Request: p.planned.Request, Values: p.planned.Values, Loaded: site, IsOlder: true}
	if own := w.Repository; own.Path != "" {
		older.Repository.Objects = own.Objects
		older.Repository.Kubelets = own.Kubelets
	}
	p.against = append(p.against, older)

	return nil
}

// isMissing reports whether a path cannot be found.
func isMissing(path string) bool {
	_, err := nodefile.Lstat(path)

	return err != nil
}
