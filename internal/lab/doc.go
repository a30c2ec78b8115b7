// Package lab answers the questions of a person on a laptop, in CI or at a console: what would happen, why, and is it
// right?
//
// A question of a person is a request: flags, recordings, files of the repository (request.go). The package reads its
// input (given.go), and opens a node of it (open.go): this machine, a recording, or recorded hardware. Below it each
// task has a folder, with a function for each command: inspect, planning, fleets, images and sites; explain, compare,
// fleet, testfile and printer show a plan.
//
// The wing may import everything below it, and inspect reads the state that a run left. It never changes a file but
// those that a person names, locks of detectors, and the files of an image. A boot only prints its result by it
// (printer, inspect): code that both need belongs in machine or lower.
//
// Start with open.go, then planning/plan.go.
package lab
