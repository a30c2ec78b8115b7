// Package platform is the wing of Linux and systemd: units, files, marks of a machine, signatures.
//
// Each package below it is one service: systemd speaks to PID 1 and reads its journal and clock; unitfile has the
// rules of unit files; nodefile reads a file with a deadline and a limit; atomicfile replaces one; apiaddress and
// signature check addresses of API servers and signed texts; machineid compares machines, also with the maker of a
// generation; registry stores sites on servers that are not trusted, and gets them, as files that it does not parse.
//
// The wing imports model and fault. It never evaluates a site, and never decides the state of a node or whether it is
// changed: it answers its caller.
//
// Start with nodefile: a file that a site, a mount or another user may have changed is read through it.
package platform
