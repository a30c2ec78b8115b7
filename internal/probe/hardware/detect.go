package hardware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/world"
)

// Options say which machine to read.
type Options struct {
	// Root is a recorded tree: a folder, or an archive as ReadTree takes it. Empty is this machine.
	Root string
	// Tree, where given, is read in place of Root, as a recorded one.
	Tree Tree
	// Without are PCI addresses to pass over, as if the devices had fallen off the bus.
	Without []string
	// Clock is what WaitFor waits by; nil is the real one.
	Clock Clock
	// Patience is how long one file may take before it, and all of its device, is given up; 0 is 5 seconds. A driver that
	// loads holds the lock behind an interface's speed for a second or two; a device that fell off its bus never answers.
	Patience time.Duration
}

const usualPatience = 5 * time.Second

// open gives the tree, whether it is this machine's, and what to call at the end.
func (o Options) open() (tree Tree, live bool, done func(), err error) {
	switch {
	case o.Tree != nil:
		return o.Tree, false, func() {}, nil
	case o.Root == "":
		return hostTree{""}, true, func() {}, nil
	}
	opened, err := ReadTree(o.Root)
	if err != nil {
		return nil, false, nil, err
	}
	return opened, false, func() { _ = opened.Close() }, nil
}

// Detect reads the facts of a machine. It returns an error only if the number of CPUs or the size of the memory cannot
// be read, or the root cannot be opened. A file that hangs is given up after Options.Patience with its device, and all
// else is read. When ctx ends before, what was read until then is returned and the rest is in Unknown; without CPUs
// and memory that is an error too.
func Detect(ctx context.Context, o Options) (world.Facts, error) {
	tree, live, done, err := o.open()
	if err != nil {
		return world.Facts{}, err
	}
	patience := o.Patience
	if patience <= 0 {
		patience = usualPatience
	}
	defer done()
	var scratch string
	var scratchErr error
	if !live {
		scratch, scratchErr = scratchFolder()
		defer func() { _ = os.RemoveAll(scratch) }()
	}
	last, count, hung := outcome{}, 0, []string{}
	for {
		watched := &watchedTree{Tree: tree, hung: hung}
		attempt, abandon := context.WithCancel(ctx)
		steps := (&detection{Tree: watched, live: live, without: o.Without, patience: patience, scratch: scratch, copyErr: scratchErr}).read(attempt)
		var name string
		last, count, name = follow(ctx, steps, watched, patience)
		abandon()
		if name == "" {
			break
		}
		// What hangs cannot be interrupted, only left behind: its thread ends when the kernel lets it. What was read before
		// is read again, for it takes milliseconds and this happens once a device.
		hung = append(hung, name)
	}
	return finish(ctx, last, count)
}

// read reads one section after the other and tells what is known after each.
func (d *detection) read(ctx context.Context) <-chan outcome {
	d.ctx, d.facts, d.evidence, d.guids = ctx, empty(), map[string]string{}, map[string]string{}
	steps := make(chan outcome, len(sections))
	go func() {
		defer close(steps)
		d.openCopy()
		defer d.closeCopy()
		for i := range sections {
			if ctx.Err() != nil {
				return
			}
			err := d.section(i)
			if ctx.Err() != nil {
				return // it may have stopped in the middle; what is half read is not told
			}
			steps <- outcome{facts: d.facts, unknown: slices.Clone(d.unknown), evidence: maps.Clone(d.evidence), err: err}
			if err != nil {
				return
			}
		}
	}()
	return steps
}

// follow takes the steps of one attempt, and names what hangs, if that stops it.
func follow(ctx context.Context, steps <-chan outcome, tree *watchedTree, patience time.Duration) (last outcome, count int, hung string) {
	take := func(step outcome) {
		last = step
		count++
	}
	const looks = 8 // in a row; by the clock alone, a machine that was paused would seem to hang
	look := time.NewTicker(max(patience/looks, time.Millisecond))
	defer look.Stop()
	seen, stuck := int64(-1), 0
	for count < len(sections) && last.err == nil {
		select {
		case step, open := <-steps:
			if !open {
				return last, count, ""
			}
			take(step)
		case <-look.C:
			name := tree.inside.Load()
			if asked := tree.asked.Load(); asked != seen || name == nil {
				seen, stuck = asked, 0
			} else if stuck++; stuck >= looks {
				return last, count, deviceOf(*name)
			}
		case <-ctx.Done():
			for len(steps) > 0 { // what was read before counts, whichever of the two is seen first
				if step, open := <-steps; open {
					take(step)
				}
			}
			return last, count, ""
		}
	}
	return last, count, ""
}

// sections are read in this order; the first two are what no boot can do without.
var sections = [...]struct {
	facts []string
	read  func(*detection) error
}{
	{[]string{"cpu"}, (*detection).readCPU},
	{[]string{"memory", "numa"}, (*detection).readMemory},
	{[]string{"pci", "accelerators", "nics"}, (*detection).readDevices},
	{[]string{"interfaces"}, (*detection).readInterfaces},
	{[]string{"product", "bios", "chassis", "baseboard", "virtualization"}, (*detection).readProduct},
	{[]string{"block_devices"}, (*detection).readBlockDevices},
	{[]string{"kernel", "os", "machine_id"}, (*detection).readSystem},
	{[]string{"runtime"}, (*detection).readRuntime},
}

const neededSections = 2

// section reads one. A panic, which would be our own fault, costs what the section would have found and not the process,
// which has the gate to see to; of what is needed it is an error.
func (d *detection) section(i int) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		why := fmt.Sprintf("reading it broke: %v. This is a fault of prelet; please report it", p)
		if i < neededSections {
			err = fmt.Errorf("detect hardware: %s is needed: %s", sections[i].facts[0], why)
			return
		}
		for _, fact := range sections[i].facts {
			d.broken(fact, why)
		}
	}()
	return sections[i].read(d)
}

type outcome struct {
	facts    world.Facts
	unknown  []world.UnknownFact
	evidence map[string]string
	err      error
}

func finish(ctx context.Context, last outcome, count int) (world.Facts, error) {
	if last.err != nil {
		return world.Facts{}, last.err
	}
	if count < neededSections {
		return world.Facts{}, fmt.Errorf("detect hardware: CPUs and memory were not read in time: %w", context.Cause(ctx))
	}
	f := last.facts
	for _, s := range sections[count:] {
		for _, name := range s.facts {
			last.unknown = append(last.unknown, world.UnknownFact{Fact: name, Why: "cannot read it in time: " + context.Cause(ctx).Error(), Degraded: true})
		}
	}
	slices.SortStableFunc(last.unknown, func(a, b world.UnknownFact) int {
		return cmp.Or(cmp.Compare(a.Fact, b.Fact), cmp.Compare(a.Why, b.Why))
	})
	f.Unknown, f.Evidence = last.unknown, last.evidence
	return f, nil
}

// detection is one reading. A section only ever assigns whole fields of facts, for the ones before are already handed out.
type detection struct {
	Tree
	ctx       context.Context
	live      bool
	without   []string
	patience  time.Duration
	scratch   string   // where copies of a recorded machine are made; empty of this machine
	copy      *os.Root // the copy that ghw reads
	copyErr   error    // why there is none
	lent      int      // files that were copied
	lentBytes int      // what is in them
	facts     world.Facts
	unknown   []world.UnknownFact
	evidence  map[string]string
	cpuinfo   cpuInfo
	guids     map[string]string // of RDMA devices, by name
}

// empty has no nil collection: a site may count and walk all of them.
func empty() world.Facts {
	return world.Facts{
		CPU:          world.CPU{Cores: []world.CPUCore{}, Offline: []int{}},
		Memory:       world.Memory{HugePages: map[string]int{}},
		NUMA:         []world.NUMANode{},
		BlockDevices: []world.BlockDevice{},
		PCI:          []world.PCIDevice{},
		Accelerators: []world.Accelerator{},
		NICs:         []world.NIC{},
		Interfaces:   map[string]world.Interface{},
		OS:           world.OS{IDLike: []string{}},
		GUIDs:        map[string]string{},
		Unknown:      []world.UnknownFact{},
		Evidence:     map[string]string{},
	}
}

// note says why a fact is null on this machine, which is well.
func (d *detection) note(fact, why string) {
	d.unknown = append(d.unknown, world.UnknownFact{Fact: fact, Why: why})
}

// broken says why a fact is null that should not be.
func (d *detection) broken(fact, why string) {
	d.unknown = append(d.unknown, world.UnknownFact{Fact: fact, Why: why, Degraded: true})
}

// failed notes why a file told nothing. One that is not there is how the machine is; any other error is a failure.
func (d *detection) failed(fact string, err error) {
	if absent(err) {
		d.note(fact, reason(err))
	} else {
		d.broken(fact, reason(err))
	}
}

// saw keeps where a fact was read: the name of a file in the tree.
func (d *detection) saw(fact, file string) {
	d.evidence[fact] = "/" + file
}

// sawEach is saw for a fact that each element of a list has: the same file for all of them, in whose name {address} and
// {interface} stand for the device's, is kept once, and an element that differs by itself.
func (d *detection) sawEach(list, address, field, file string) {
	d.toldEach(list, address, field, "/"+file)
}

// toldEach is sawEach for what is no file, said in words.
func (d *detection) toldEach(list, address, field, source string) {
	all := list + "[]" + field
	switch first, ok := d.evidence[all]; {
	case !ok:
		d.evidence[all] = source
	case first != source:
		d.evidence[list+"["+address+"]"+field] = source
	}
}

func reason(err error) string {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return "cannot read it: " + err.Error()
	}
	if absent(err) {
		return "there is no /" + p.Path
	}
	return "cannot read /" + p.Path + ": " + p.Err.Error()
}

// sysfsLimit is the size of a page, the most that one attribute of sysfs holds.
const sysfsLimit = 4096

// text reads a small file, without the space around it.
func (d *detection) text(name string) (string, error) {
	data, err := d.ReadFile(name, sysfsLimit)
	return strings.TrimSpace(string(data)), err
}

// names lists a folder in one order, whatever order the kernel has.
func (d *detection) names(name string) ([]string, error) {
	list, err := d.ReadDir(name)
	slices.Sort(list)
	return list, err
}
