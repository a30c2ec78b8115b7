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

	"github.com/prelet/prelet/internal/model/tape"
)

// ReadOptions name the machine to read. The zero value is this machine.
type ReadOptions struct {
	// Root is the folder of a recorded tree. Empty is this machine.
	Root string
	// Tree is a recorded machine that is used instead of Root, if it is not nil.
	Tree Tree
	// FileTimeout is the time for one file before it is abandoned together with its device; 0 is 5 seconds. A driver
	// that loads blocks the reads of an interface's speed for a second or two; a device that fell off its bus
	// never responds.
	FileTimeout time.Duration
}

const defaultPatience = 5 * time.Second

// openTree returns the tree, whether it is this machine's, and a function to call at the end.
func (o ReadOptions) openTree() (tree Tree, isLive bool, done func(), err error) {
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

// Detect reads the facts of a machine. It returns an error only if the number of CPUs or the size of the memory
// cannot be read, or the root cannot be opened. A file that hangs is abandoned after ReadOptions.FileTimeout together
// with its device. When ctx ends, the facts that were read until then are returned, and the rest is in Unknown;
// without CPUs and memory that is an error, too.
func Detect(ctx context.Context, o ReadOptions) (tape.Facts, error) {
	tree, isLive, done, err := o.openTree()
	if err != nil {
		return tape.Facts{}, err
	}
	defer done()

	patience := max(o.FileTimeout, 0)
	if patience == 0 {
		patience = defaultPatience
	}

	var scratch string
	var scratchErr error

	if !isLive {
		scratch, scratchErr = makeScratchFolder()
		defer func() { _ = os.RemoveAll(scratch) }()
	}

	var hung []string

	for {
		watched := &watchedTree{Tree: tree, hung: hung}
		d := &detection{
			Tree:     watched,
			live:     isLive,
			patience: patience,
			scratch:  scratch,
			copyErr:  scratchErr,
		}

		attempt, abandon := context.WithCancel(ctx)
		last, count, name := follow(ctx, d.read(attempt), watched, patience)
		abandon()

		if name == "" {
			return completeFacts(ctx, last, count)
		}

		// A hanging read cannot be interrupted; its thread ends when the kernel returns. The sections are read again
		// without the device, which takes milliseconds and happens once for each hanging device.
		hung = append(hung, name)
	}
}

// read reads the sections in order, and sends the facts so far after each.
func (d *detection) read(ctx context.Context) <-chan outcome {
	d.ctx = ctx
	d.facts = emptyFacts()
	d.evidence = map[string]string{}
	d.guids = map[string]string{}
	steps := make(chan outcome, len(sections))

	go func() {
		defer close(steps)

		d.openCopy()
		defer d.closeCopy()

		for i := range sections {
			if ctx.Err() != nil {
				return
			}

			err := d.readSection(i)
			if ctx.Err() != nil {
				return // the section may be incomplete
			}

			steps <- outcome{
				facts:    d.facts,
				unknown:  slices.Clone(d.unknown),
				evidence: maps.Clone(d.evidence),
				err:      err,
			}

			if err != nil {
				return
			}
		}
	}()

	return steps
}

// follow receives the steps of one attempt. It returns the last step and the number of steps, and the file or device
// that hangs if that ended the attempt. Only reads through the tree are watched: callWithin limits ghw and rtnetlink,
// which read on their own. One section does one of the two at a time, so the two limits do not compete.
func follow(
	ctx context.Context, steps <-chan outcome, tree *watchedTree, patience time.Duration,
) (last outcome, count int, hung string) {
	// A read hangs if it is seen at this many ticks in a row. A clock alone would take a paused machine for a
	// hanging one.
	const maxTicks = 8

	ticker := time.NewTicker(max(patience/maxTicks, time.Millisecond))
	defer ticker.Stop()

	seen, ticks := int64(-1), 0

	for count < len(sections) && last.err == nil {
		select {
		case step, isOpen := <-steps:
			if !isOpen {
				return last, count, ""
			}

			last = step
			count++
		case <-ticker.C:
			name, asked := tree.current.Load(), tree.asked.Load()
			if name == nil || asked != seen {
				seen, ticks = asked, 0
				continue
			}

			ticks++
			if ticks >= maxTicks {
				return last, count, deviceOf(*name)
			}
		case <-ctx.Done():
			for len(steps) > 0 { // steps before the end count, even if the end is seen first
				last = <-steps
				count++
			}

			return last, count, ""
		}
	}

	return last, count, ""
}

// sections are read in this order. A boot needs the first two.
var sections = [...]struct {
	facts []string
	read  func(*detection) error
}{
	{[]string{"cpu"}, (*detection).readCPU},
	{[]string{"memory", "numa"}, (*detection).readMemory},
	{[]string{"pci", "accelerators", "nics", "guids"}, (*detection).readDevices},
	{[]string{"interfaces", "default_route"}, (*detection).readInterfaces},
	{[]string{"product", "bios", "chassis", "baseboard", "virtualization"}, (*detection).readProduct},
	{[]string{"block_devices"}, (*detection).readBlockDevices},
	{[]string{"kernel", "os", "machine_id", "memory.hugepages_asked"}, (*detection).readSystem},
	{[]string{"runtime"}, func(d *detection) error {
		_, err := d.readRuntime()
		return err
	}},
}

const neededSections = 2

// readSection reads one section. A panic, which is a bug in prelet, must not end the process, because the
// kubelet's gate depends on it: the facts of the section are unknown then, and it is an error if they are needed.
func (d *detection) readSection(i int) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}

		why := fmt.Sprintf("reading it broke: %v. This is a bug in prelet; please report it", p)
		if i < neededSections {
			err = fmt.Errorf("detect hardware: %s is needed: %s", sections[i].facts[0], why)
			return
		}

		for _, fact := range sections[i].facts {
			d.noteBroken(fact, why)
		}
	}()

	return sections[i].read(d)
}

// outcome is the state of a detection after a section.
type outcome struct {
	facts    tape.Facts
	unknown  []tape.UnknownFact
	evidence map[string]string
	err      error
}

// completeFacts returns the facts of the first count sections. The facts of the others are unknown.
func completeFacts(ctx context.Context, last outcome, count int) (tape.Facts, error) {
	if last.err != nil {
		return tape.Facts{}, last.err
	}

	if count < neededSections {
		err := context.Cause(ctx)
		return tape.Facts{}, fmt.Errorf("detect hardware: CPUs and memory were not read in time: %w", err)
	}

	for _, s := range sections[count:] {
		for _, fact := range s.facts {
			last.unknown = append(last.unknown, tape.UnknownFact{
				Fact:     fact,
				Why:      "cannot read it in time: " + context.Cause(ctx).Error(),
				Degraded: true,
			})
		}
	}

	last.facts.Unknown = last.unknown
	gpuBytes, why := last.facts.CountGPUBytes()
	if why == "" {
		last.facts.Memory.GPUBytes = &gpuBytes
		last.evidence["memory.gpu_bytes"] = "/" + nodesFolder + "/"
	} else {
		last.unknown = append(last.unknown, tape.UnknownFact{Fact: "memory.gpu_bytes", Why: why})
	}

	slices.SortStableFunc(last.unknown, func(a, b tape.UnknownFact) int {
		return cmp.Or(
			cmp.Compare(a.Fact, b.Fact),
			cmp.Compare(a.Why, b.Why),
		)
	})

	facts := last.facts
	facts.Unknown = last.unknown
	facts.Evidence = last.evidence

	return facts, nil
}

// detection is one reading of a machine. A section must assign whole fields of facts, because the earlier facts are
// already in use.
type detection struct {
	Tree
	ctx         context.Context
	live        bool
	patience    time.Duration
	scratch     string   // the folder for copies of a recorded machine; empty for this machine
	copy        *os.Root // the copy that ghw reads
	copyErr     error    // the error of making the copy
	copied      int      // number of copied files
	copiedBytes int
	facts       tape.Facts
	unknown     []tape.UnknownFact
	evidence    map[string]string
	cpuinfo     cpuInfo
	guids       map[string]string       // of RDMA devices, by name
	kfdMemory   func() map[string]int64 // readKFD, called once
}

// emptyFacts returns facts without a nil collection, because a site may count and iterate over all of them.
func emptyFacts() tape.Facts {
	return tape.Facts{
		CPU: tape.CPU{
			Cores:   []tape.CPUCore{},
			Offline: []int{},
		},
		Memory:       tape.Memory{HugePages: map[string]int{}, HugePagesAsked: map[string]int{}},
		NUMA:         []tape.NUMANode{},
		BlockDevices: []tape.BlockDevice{},
		PCI:          []tape.PCIDevice{},
		Accelerators: []tape.Accelerator{},
		NICs:         []tape.NIC{},
		Interfaces:   map[string]tape.Interface{},
		DefaultRoute: &tape.DefaultRoutes{},
		OS:           tape.OS{IDLike: []string{}},
		GUIDs:        map[string]string{},
		Unknown:      []tape.UnknownFact{},
		Evidence:     map[string]string{},
	}
}

// note adds the reason for a fact that is null on a healthy machine.
func (d *detection) note(fact, why string) {
	d.unknown = append(d.unknown, tape.UnknownFact{
		Fact: fact,
		Why:  why,
	})
}

// noteBroken adds the reason for a fact that is null because of a failure.
func (d *detection) noteBroken(fact, why string) {
	d.unknown = append(d.unknown, tape.UnknownFact{
		Fact:     fact,
		Why:      why,
		Degraded: true,
	})
}

// noteError adds the error of reading a fact. A missing file is normal; any other error is a failure.
func (d *detection) noteError(fact string, err error) {
	if isAbsent(err) {
		d.note(fact, describeError(err))
	} else {
		d.noteBroken(fact, describeError(err))
	}
}

// noteFailure is noteError for a file that may be missing. A nil error is not noted.
func (d *detection) noteFailure(fact string, err error) {
	if err != nil && !isAbsent(err) {
		d.noteError(fact, err)
	}
}

// setSource sets the file of the tree that a fact was read from.
func (d *detection) setSource(fact, file string) {
	d.evidence[fact] = "/" + file
}

// setEachSource is setSource for a fact of each element of a list. The first source is kept for the whole list, with
// {address} and {interface} for the device's; an element with another source has its own entry.
func (d *detection) setEachSource(list, address, field, file string) {
	d.setEachSourceText(list, address, field, "/"+file)
}

// setEachSourceText is setEachSource for a source that is not a file.
func (d *detection) setEachSourceText(list, address, field, source string) {
	all := list + "[]" + field
	first, exists := d.evidence[all]

	switch {
	case !exists:
		d.evidence[all] = source
	case first != source:
		d.evidence[list+"["+address+"]"+field] = source
	}
}

// hasUnknown reports whether a list, or some field of its elements, is not known.
func (d *detection) hasUnknown(list, field string) bool {
	return slices.ContainsFunc(d.unknown, func(u tape.UnknownFact) bool {
		_, rest, _ := strings.Cut(u.Fact, "].")
		return u.Fact == list || strings.HasPrefix(u.Fact, list+"[") && strings.HasPrefix(rest, field)
	})
}

func describeError(err error) string {
	var p *fs.PathError

	switch {
	case !errors.As(err, &p):
		return "cannot read it: " + err.Error()
	case isAbsent(err):
		return "there is no /" + p.Path
	}

	return "cannot read /" + p.Path + ": " + p.Err.Error()
}

// sysfsLimit is the size of a page, the maximum of one attribute of sysfs.
const sysfsLimit = 4096

// readText reads a small file, without the space around it.
func (d *detection) readText(name string) (string, error) {
	data, err := d.ReadFile(name, sysfsLimit)
	return strings.TrimSpace(string(data)), err
}

// list returns the names in a folder, sorted. The kernel's order varies.
func (d *detection) list(name string) ([]string, error) {
	names, err := d.ReadDir(name)
	slices.Sort(names)

	return names, err
}

// listNumbers returns N of the names PREFIXN in a folder, sorted.
func (d *detection) listNumbers(folder, prefix string) ([]int, error) {
	names, err := d.ReadDir(folder)

	var numbers []int
	for _, name := range names {
		if n, ok := parseNumbered(name, prefix); ok {
			numbers = append(numbers, n)
		}
	}

	slices.Sort(numbers)

	return numbers, err
}
