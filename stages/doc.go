// Package stages is the contract of a stage type: its declaration, and the code that runs in its phase.
// A type implements Stage and one of Gatherer, Decider and Renderer; package builtin lists the types. Gatherers read
// through the tape only, deciders and renderers are pure.
//
// The wing imports schema and the wings below, and the contract of detectors. A stage never writes, and never imports
// another stage.
//
// Start with taint, the smallest one.
package stages
