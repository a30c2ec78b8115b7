// Package plugins is the wing of detectors, a module of its own: a vendor uses it without the rest of prelet.
//
// Package contract has the promises between prelet and a detector; protocol and proto encode them; a vendor's program
// uses sdk, and is checked by conformance; sandbox confines a detector. Those that ship are in detectors, their
// programs in cmd.
//
// The wing imports no other one. A detector never writes, and reads only the files that it declares.
//
// Start with sdk/detector.go, then detectors/mellanox, a small detector.
package plugins
