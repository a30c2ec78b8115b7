// Package sdk is for writing detectors: small programs of vendors that report their hardware to prelet. A detector
// implements Detector and calls Serve:
//
//	func main() { sdk.Serve(detector{}) }
//
// It must read only below the Root of each Request, so that the same code works on a node and on a recorded machine,
// and must leave out unknown values, because zero never means unknown.
//
// An answer that breaks the detector's own description is rejected as a whole. Package detectortest tests a detector.
// Build with -tags grpcnotrace: without it grpc-go links net/http's tracing pages, which are not used.
package sdk

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/plugins/contract"
)

// Detector is implemented by vendors.
type Detector interface {
	// Describe returns the detector's declaration. It must read nothing, and return the same on every machine.
	Describe() Description

	// Detect adds its results to a. Without its hardware it adds nothing and returns nil. An error discards the whole
	// answer; for a part that cannot be read use a.Warn and Fact.Unknown. It must return soon after ctx ends. A panic
	// becomes an error.
	Detect(ctx context.Context, r Request, a *Answer) error
}

// Validator is implemented by detectors whose configuration has rules beyond its declaration, for example attributes
// that exclude each other. It must read no device.
type Validator interface {
	Validate(c Config) []Problem
}

// Types of the contract with prelet.
type (
	// Match selects the machines on which a detector is started. One matching entry is enough.
	Match = contract.Match
	// Needs is the access that a detector needs in addition to reading /sys, /proc and the system's libraries.
	Needs = contract.Needs
	// PCIDevice is a PCI function as in sysfs.
	PCIDevice = contract.PCIDevice
	// Device is a detected device. Fields that are set overrule the built-in detection.
	Device = contract.Device
	// Problem is an error at a place in a configuration.
	Problem = contract.Problem
)

// Description declares a detector.
type Description struct {
	Name    string // [a-z][a-z0-9-]*: of the program, and in `detector "NAME" {}`
	Version string
	Vendor  string        // for people
	Doc     string        // its purpose, one sentence
	Config  []Declaration // attributes of `config {}`: Attr values
	Facts   []Declaration // facts of its answers: Fact values
	Domains []string      // of the labels that it recommends
	Match   Match
	Needs   Needs // required: without these it is not started
	Wants   Needs // optional: without these it returns less
}

// Request is the input of Detect.
type Request struct {
	Config  Config      // complete, with defaults
	Devices []PCIDevice // the devices that Match.PCIIDs matches, sorted by address
	Root    Root        // has /sys and /proc
}

// Answer collects the results of Detect. Their order does not matter: they are sorted.
type Answer struct {
	content contract.Answer
}

// Add adds a device.
func (a *Answer) Add(d Device) {
	a.content.Devices = append(a.content.Devices, d)
}

// AddFacts adds facts, which Fact.Is and Fact.Unknown make.
func (a *Answer) AddFacts(facts ...contract.Fact) {
	a.content.Facts = append(a.content.Facts, facts...)
}

// Attribute sets an attribute of the machine, which has no declared type.
func (a *Answer) Attribute(name, value string) {
	if a.content.Attributes == nil {
		a.content.Attributes = map[string]string{}
	}
	a.content.Attributes[name] = value
}

// Recommend adds a label in one of the described domains. The site decides whether it is used. LabelValue makes a
// value of any text. Evidence is where the value was read.
func (a *Answer) Recommend(key, value, evidence string) {
	label := contract.Label{Key: key, Value: value, Evidence: evidence}
	a.content.Labels = append(a.content.Labels, label)
}

// Warn adds a warning for people.
func (a *Answer) Warn(format string, args ...any) {
	text := contract.OneLine(fmt.Sprintf(format, args...))
	a.content.Warnings = append(a.content.Warnings, text)
}

// Refuse adds a problem of the configuration that only the hardware could show. The rest of the answer is ignored
// then. Summary is a sentence; detail says what to write instead.
func (a *Answer) Refuse(path, summary, detail string) {
	problem := Problem{Path: path, Summary: summary, Detail: detail}
	a.content.Problems = append(a.content.Problems, problem)
}

// LabelValue returns a valid label value for any text: "NVIDIA H100 80GB HBM3" → "NVIDIA-H100-80GB-HBM3".
func LabelValue(s string) string { return contract.LabelValue(s) }
