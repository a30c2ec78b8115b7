// Package lab answers what a person asks on a laptop, in CI or at a console: what would happen, why, and is it right?
//
// A question of a person is a request: flags, recordings, files of the repository (request.go). The package reads what
// was given (given.go), and opens a node of it (open.go): this machine, a recording, or recorded hardware. The packages
// below have one folder for each thing that a person does, a function for each command: inspect, planning, fleets,
// images and sites; explain, compare, fleet, testfile and printer show a plan.
//
// The wing may import everything below it; package inspect also looks at what a run left. It never changes a node, and
// a boot imports none of it: what both need belongs in machine or lower.
//
// Start with open.go, then planning/plan.go.
package lab
