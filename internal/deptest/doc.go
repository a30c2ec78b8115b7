// Package deptest checks which package may import or reach which other, with a reason in each rule.
//
// A rule is about imports of a package (Direct), or about everything that it reaches through them: a package that
// decides must not be able to open connections or start programs, not even through a library of a library.
//
// The rules are in testdata/rules.txt, the order of packages in the table of docs/develop/architecture.md, the
// libraries that a program must contain in libraries_test.go. To move a wall, change the rule and its reason in the
// same commit.
//
// The other tests here hold properties of the repository that no package owns: the examples of CONTRIBUTING.md, the
// workflows, scripts of tests, and that the programs can be installed without git.
package deptest
