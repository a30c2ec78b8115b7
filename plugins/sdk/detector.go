// Package sdk is what a vendor writes a detector against: a small program that tells prelet what it knows of the
// vendor's hardware.
//
// A detector implements Detector and calls Serve:
//
//	func main() { sdk.Serve(detector{}) }
//
// Started by prelet it answers over gRPC; started by hand it has the commands describe and detect, for people. It reads
// below the Root that each Request carries, so that the same code looks at a node, at a test's tree and at a recorded
// machine. What it does not know it leaves out; nothing is ever zero for unknown.
//
// Everything that a detector says is checked against its own description, here and again by prelet: an answer that
// breaks it is refused whole, with a reason that names the place. Package detectortest runs a detector in a test.
//
// Build a detector with -tags grpcnotrace: a boot hashes and starts it, and without the tag grpc-go links net/http's
// tracing pages, which nothing serves.
package sdk

import (
	"context"
	"fmt"

	"github.com/prelet/prelet/plugins/contract"
)

// Detector is what a vendor implements.
type Detector interface {
	// Describe says what the detector is. It looks at nothing: the same on every machine, every time.
	Describe() Description

	// Detect looks, and tells a what it found. Hardware that is not there is no error: tell nothing. An error loses the
	// whole answer; for a part that could not be read, use a.Warn and Fact.Unknown. It must end soon after ctx does; a
	// panic becomes an error.
	Detect(ctx context.Context, r Request, a *Answer) error
}

// Validator is implemented by detectors whose configuration has rules beyond its schema: attributes that exclude each
// other. It looks at no device. Paths of problems are those of Problem.
type Validator interface {
	Validate(c Config) []Problem
}

// The words of the contract with prelet.
type (
	// Match says on which machines a detector has something to do: any one of its parts.
	Match = contract.Match
	// Needs is what a detector asks the site for, beyond reading /sys, /proc and the system's libraries.
	Needs = contract.Needs
	// PCIDevice is one PCI function as sysfs shows it.
	PCIDevice = contract.PCIDevice
	// Device is one device that was found; fields that are set overrule the built-in detection.
	Device = contract.Device
	// Problem is one thing that is wrong with a configuration, and where.
	Problem = contract.Problem
)

// Description is what a detector is, and all that it may say.
type Description struct {
	Name    string // [a-z][a-z0-9-]*: of the program, and in `detector "NAME" {}`
	Version string
	Vendor  string        // who wrote it, for people
	Doc     string        // what it finds, in a sentence
	Config  []Declaration // what `config {}` may say: Attr values
	Facts   []Declaration // what Answer.Tell may tell: Fact values
	Domains []string      // of the labels that it may recommend
	Match   Match
	Needs   Needs // without these it is not started
	Wants   Needs // without these it is started, and tells less
}

// Request is what Detect is asked with.
type Request struct {
	Config  Config      // complete: defaults are filled in
	Devices []PCIDevice // those that Match.PCIIDs names, sorted by address
	Root    Root        // where /sys and /proc are
}

// Answer collects what was found. Its order does not matter: what goes out is sorted.
type Answer struct {
	said contract.Answer
}

// Add tells of a device.
func (a *Answer) Add(d Device) { a.said.Devices = append(a.said.Devices, d) }

// Tell tells facts: Fact.Is and Fact.Unknown make them.
func (a *Answer) Tell(facts ...contract.Fact) { a.said.Facts = append(a.said.Facts, facts...) }

// Attribute says something of the whole machine, free of types.
func (a *Answer) Attribute(name, value string) {
	if a.said.Attributes == nil {
		a.said.Attributes = map[string]string{}
	}
	a.said.Attributes[name] = value
}

// Recommend recommends a label in one of the described domains; the site decides whether it is taken. LabelValue makes
// a value out of any text. Evidence is what the label was made of.
func (a *Answer) Recommend(key, value, evidence string) {
	a.said.Labels = append(a.said.Labels, contract.Label{Key: key, Value: value, Evidence: evidence})
}

// Warn says what people should know.
func (a *Answer) Warn(format string, args ...any) {
	a.said.Warnings = append(a.said.Warnings, contract.OneLine(fmt.Sprintf(format, args...)))
}

// Refuse says what is wrong with the configuration, where only the hardware could show it. Nothing else of the answer
// counts then. Summary is a sentence, detail what to write instead.
func (a *Answer) Refuse(path, summary, detail string) {
	a.said.Problems = append(a.said.Problems, Problem{Path: path, Summary: summary, Detail: detail})
}
