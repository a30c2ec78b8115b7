// Package lab opens what a person asks about, on a laptop, in CI or at a console: a request (request.go), what of it
// was read (given.go), and a node of it (open.go), which is this machine, a recording, or recorded hardware. It embeds
// what package machine opens, and adds what answers in place of the machine. A boot does not import it.
package lab
