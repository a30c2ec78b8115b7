// Package wire defines the messages between prelet and prelet-detect: one request and one reply, each a line of JSON.
// Both sides use it. It does no input or output.
package wire

import (
	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/sandbox"
)

// Limits in addition to the contract's. prelet stops reading a reply that is longer.
const (
	MaxRequest   = 4 << 20
	MaxReply     = 4 << 20 // an answer of at most 1 MiB, as JSON
	MaxHandshake = 4 << 10
)

// Values of Request.Ask.
const (
	Describe = "describe"
	Detect   = "detect"
)

// Request is a request to prelet-detect. prelet sends it after it has checked the program's hash.
type Request struct {
	Ask    string         `json:"ask"`
	Name   string         `json:"name"`
	Millis int64          `json:"ms"` // time limit for everything
	Policy sandbox.Policy `json:"policy"`
	contract.Request
}

// Step is a step of a run.
type Step string

// The steps.
const (
	Sandbox   Step = "sandbox"   // prelet-detect itself
	Start     Step = "start"     // of the program
	Handshake Step = "handshake" // until the detector's first line
	Call      Step = "call"      // until its answer is accepted
)

// Reply is the result of a request. Everything that comes from the detector is unchecked, except for its size.
type Reply struct {
	Failed Step   `json:"failed,omitempty"` // the step that failed
	Text   string `json:"text,omitempty"`   // why, a sentence without its dot

	Report sandbox.Confinement `json:"sandbox"`

	Describe *contract.Description `json:"describe,omitempty"`
	Answer   *contract.Answer      `json:"answer,omitempty"`
}
