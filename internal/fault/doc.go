// Package fault contains the one error type of prelet. A function that fails makes a Fault where the failure happens,
// and its code reaches main: as a fault, in a recorded answer, or in a diagnostic. Raise gives a more specific code
// to a general one. The code determines the exit status and the page.
//
// The package imports no other package of prelet. It never prints, and decides nothing.
//
// Start with Fault and Raise; codes.go has the codes.
package fault
