// Package cmd is the wing of programs: prelet, prelet-detect, which runs one detector as the user of that detector,
// prelet-detector-check, and kubectl-prelet.
//
// The flags, texts and exit statuses of a command of prelet are in the file of its name, or in that of the command
// above it. It calls a function of internal/lab, internal/machine/run or internal/machine/delivery, and prints the
// result with internal/lab/printer.
//
// The wing may import every other one. It never decides the state of a node, and never writes a file of a node: a
// function that does belongs in a wing below.
//
// Start with prelet/main.go, then prelet/plan.go and prelet/run.go.
package cmd
