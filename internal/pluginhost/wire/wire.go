// Package wire is what prelet and prelet-detect say to each other: one request, one reply, a line of JSON each. It imports
// the standard library and internal/world only, and touches nothing.
package wire

import "github.com/prelet/prelet/internal/world"

// Bounds. A reply that is longer is cut off by prelet, who reads no further; the bounds of parts are for what a detector
// says, so that prelet-detect can tell which part was too large.
const (
	MaxRequest   = 4 << 20
	MaxReply     = 2 << 20 // an answer of at most 1 MiB, in JSON
	MaxAnswer    = 1 << 20 // as detector.v1 has it
	MaxDescribe  = 64 << 10
	MaxHandshake = 4 << 10
	MaxStderr    = 16 << 10
	MaxText      = 4 << 10 // of an error
)

// What a detector is asked.
const (
	Describe = "describe"
	Detect   = "detect"
)

// Request is what prelet asks of one prelet-detect. It comes when the program's hash is found right, and not before.
type Request struct {
	Ask    string       `json:"ask"`
	Name   string       `json:"name"`
	Socket string       `json:"socket"` // the private folder
	Own    bool         `json:"own"`    // the user is the detector's own
	Memory uint64       `json:"memory"`
	Millis int64        `json:"ms"` // how long all of it may take
	Allow  world.Grants `json:"allow"`

	Config  map[string]any    `json:"config,omitempty"`
	Devices []world.PCIDevice `json:"devices,omitempty"`
}

// Step is how far a detector came.
type Step string

// The steps.
const (
	Sandbox   Step = "sandbox"   // prelet-detect itself
	Start     Step = "start"     // the program could not be started
	Handshake Step = "handshake" // it ended, or said something else than the handshake
	Call      Step = "call"      // it was asked, and failed, or its answer was refused
)

// Reply is what came of it.
type Reply struct {
	Failed   Step   `json:"failed,omitempty"`
	Text     string `json:"text,omitempty"` // why, in a sentence without its dot
	TimedOut bool   `json:"timed_out,omitempty"`

	Sandbox  []string           `json:"sandbox,omitempty"` // what could not be set up
	Describe *world.Description `json:"describe,omitempty"`
	Answer   *Answer            `json:"answer,omitempty"`
	// Micros is when each step was over, since prelet-detect began.
	Micros map[Step]int64 `json:"us,omitempty"`
}

// Answer is detector.v1's DetectResponse. Nothing in it has been checked but its size.
type Answer struct {
	Devices    []world.DetectorDevice `json:"devices,omitempty"`
	Attributes map[string]string      `json:"attributes,omitempty"`
	Facts      []Fact                 `json:"facts,omitempty"`
	Labels     []Label                `json:"labels,omitempty"`
	Warnings   []string               `json:"warnings,omitempty"`
	Problems   []world.ConfigProblem  `json:"problems,omitempty"`
}

// Fact is the value of one described fact.
type Fact struct {
	Name     string `json:"name"`
	Value    any    `json:"value"`
	Evidence string `json:"evidence,omitempty"`
	Unknown  string `json:"unknown,omitempty"`
}

// Label is one recommended label.
type Label struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Evidence string `json:"evidence,omitempty"`
}
