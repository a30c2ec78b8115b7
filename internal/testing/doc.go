// Package testing is the wing of tests' shared code; no program that ships imports it.
//
// Package demo is an API server on loopback, also for `make demo`; script is the language of the tests that follow a
// node; sample chooses some of very many cases, by a seed that it prints; canary has the secrets for which tests search
// every output; table reads the cases of a test from a text; osfile reads and writes its files; growth compares the
// cost of two sizes of an input.
//
// The wing may import everything, and is never imported but by tests, the demo and the benchmarks.
//
// Start with demo/demo.go.
package testing
