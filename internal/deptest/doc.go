// Package deptest keeps the walls of the house: which package may reach which, as a test with the reason in every rule.
//
// The linter (depguard in .golangci.yml) looks at the imports that a file writes down. This package looks at what a
// package *reaches* through everything that it imports, because that is what counts: a room that decides what a node
// becomes must not be able to dial or to start a program, not even through a library's library.
//
// The rules are in rules.go, the order of the rooms in order.go, the libraries that a program must contain in
// libraries.go. To move a wall, change the rule and its reason in the same commit; a rule without a reason that convinces
// does not stand long.
//
// It may run `go list` and read this module's source files. It writes nothing, and nothing but its own test imports it.
package deptest
