// Package plan is the wing that turns a site and answers into the plan of a node.
//
// Package lang loads and checks a site; eval evaluates its blocks; evaluate runs the steps from check to diff, and
// calls the stages. Each other package has the rules of one question of a step: the kubelet's effective configuration,
// its verdict, the files of other programs, the identity, the needs of apply.
//
// The wing imports stages, schema and the wings below. It is pure: the same site and the same answers give the same
// plan, byte for byte, on any machine. It reads only through one tape, and never opens a connection, starts a program
// or writes; only lang/os.go reads files, those of a site.
//
// Start with evaluate/evaluate.go.
package plan
