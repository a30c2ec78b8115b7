// Package wire is what prelet and prelet-detect say to each other: one request, one reply, a line of JSON each. It touches
// nothing.
package wire

import (
	"github.com/prelet/prelet/internal/world"
	"github.com/prelet/prelet/plugins/contract"
)

// Bounds, beside those of the contract on what a detector says. A reply that is longer is cut off by prelet, who reads no
// further.
const (
	MaxRequest   = 4 << 20
	MaxReply     = 4 << 20 // an answer of at most 1 MiB, in JSON
	MaxHandshake = 4 << 10
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

	Config  map[string]any       `json:"config,omitempty"`
	Devices []contract.PCIDevice `json:"devices,omitempty"`
	Root    string               `json:"root,omitempty"` // the folder that stands for "/"
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

	Lacks    []string              `json:"lacks,omitempty"`    // what of the sandbox this kernel or this user does not have
	Findings []string              `json:"findings,omitempty"` // what of it something on this machine prevents
	Describe *contract.Description `json:"describe,omitempty"` // nothing in it has been checked but its size
	Answer   *contract.Answer      `json:"answer,omitempty"`   // the same
	// Micros is when each step was over, since prelet-detect began.
	Micros map[Step]int64 `json:"us,omitempty"`
}
