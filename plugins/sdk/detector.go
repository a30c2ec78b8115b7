// Package sdk is for writing detectors: small programs of vendors that report their hardware to prelet. A detector is
// one declaration with the function that reads the hardware:
//
//	var detector = sdk.Detector{Name: "one", Match: sdk.Match{PCIIDs: []string{"1234:*:12"}}, Detect: detect}
//
//	func main() { sdk.Serve(detector) }
//
// The function must read only the files of its Machine, so that the same code works on a node and on a recorded
// machine, and must leave out unknown values, because zero never means unknown.
//
// An answer that breaks the detector's own description is rejected as a whole. Package detectortest tests a detector.
// Build with -tags grpcnotrace: without it grpc-go links net/http's tracing pages, which are not used.
package sdk

import (
	"context"
	"fmt"
	"time"

	"github.com/prelet/prelet/plugins/contract"
)

// Detector declares a detector. It must be the same on every machine, because a lock file keeps it.
type Detector struct {
	Name    string // [a-z][a-z0-9-]*: of the program, and in `detector "NAME" {}`
	Version string
	Vendor  string        // for people
	Doc     string        // its purpose, one sentence
	Config  []Declaration // attributes of `config {}`: Attr values
	Facts   []Declaration // facts of its answers: Fact values
	Domains []string      // of the labels that it recommends
	Match   Match
	Needs   Needs   // required: without these it is not started
	Wants   Needs   // optional: without these it returns less
	Package Package // of its deb and rpm

	// Timeout is how long Detect may take where the site gives no timeout, in whole seconds; 0 is 10 seconds. It is for
	// drivers that initialize devices at their first use: a longer one keeps the boot longer if a driver hangs.
	Timeout time.Duration

	// Detect adds its results to m. Without its hardware it adds nothing and returns nil. An error discards the whole
	// answer; for a part that cannot be read use m.Warn and Fact.Unknown. It must return soon after m.Context() ends.
	// A panic becomes an error.
	Detect func(m *Machine) error

	// Validate makes the checks that the declaration of Config cannot express, for example of attributes that exclude
	// each other. It must read no device. It may be nil.
	Validate func(c Config) []Problem
}

// Types of the contract with prelet.
type (
	// Match selects the machines on which a detector is started. One matching entry is enough.
	Match = contract.Match
	// Needs is the access that a detector needs in addition to reading /sys, /proc and the system's libraries.
	Needs = contract.Needs
	// PCIDevice is a PCI function as in sysfs.
	PCIDevice = contract.PCIDevice
	// Problem is an error at a place in a configuration.
	Problem = contract.Problem
)

// Machine gives Detect its input, and collects its results. Their order does not matter: they are sorted.
type Machine struct {
	Root              // its files
	Config  Config    // complete, with defaults
	Devices []*Device // those that Match.PCIIDs matches, sorted by address; Add reports one

	ctx    context.Context // of one call of Detect
	added  []*Device
	answer contract.Answer

	notReady string        // why the answer may get better
	limit    time.Duration // until when, from the first call on
}

func newMachine(ctx context.Context, config Config, devices []PCIDevice, root Root) *Machine {
	m := &Machine{Root: root, Config: config, ctx: ctx}
	for _, p := range devices {
		m.Devices = append(m.Devices, m.NewDevice(p))
	}

	return m
}

// NotReady says that the answer may get better, as that of a driver that is still loaded: Detect is called again, with
// a new Machine, until it does not say so, or limit has passed since its first call. Then the answer is as it is, with
// the reason as a warning. The detector's deadline, and its answer before, come first.
func (m *Machine) NotReady(limit time.Duration, format string, args ...any) {
	m.notReady = fmt.Sprintf(format, args...)
	m.limit = limit
}

// Context ends with the deadline of the answer, or when prelet stops waiting for it.
func (m *Machine) Context() context.Context { return m.ctx }

func (m *Machine) Add(d *Device) { m.added = append(m.added, d) }

// AddFacts adds facts, which Fact.Is and Fact.Unknown make.
func (m *Machine) AddFacts(facts ...contract.Fact) {
	m.answer.Facts = append(m.answer.Facts, facts...)
}

// Attribute sets an attribute of the machine, which has no declared type.
func (m *Machine) Attribute(name, value string) {
	if m.answer.Attributes == nil {
		m.answer.Attributes = map[string]string{}
	}
	m.answer.Attributes[name] = value
}

// Recommend adds a label in one of the described domains. The site decides whether it is used. Any text becomes a valid
// value: "NVIDIA H100 80GB HBM3" → "NVIDIA-H100-80GB-HBM3". An empty one means unknown and adds nothing. Evidence is
// where the value was read.
func (m *Machine) Recommend(key, value, evidence string) {
	if value = contract.LabelValue(value); value != "" {
		m.answer.Labels = append(m.answer.Labels, contract.Label{Key: key, Value: value, Evidence: evidence})
	}
}

// Warn adds a warning for people, unless there are too many for an answer.
func (m *Machine) Warn(format string, args ...any) {
	if len(m.answer.Warnings) < contract.MaxNotes {
		m.answer.Warnings = append(m.answer.Warnings, contract.OneLine(fmt.Sprintf(format, args...)))
	}
}

// Refuse adds a problem of the configuration that only the hardware could show. The rest of the answer is ignored
// then. Summary is a sentence; detail says what to write instead.
func (m *Machine) Refuse(path, summary, detail string) {
	m.answer.Problems = append(m.answer.Problems, Problem{Path: path, Summary: summary, Detail: detail})
}
