// Package platform is the wing of Linux and systemd: units, files, marks of a machine, signatures.
//
// Each package below it is one service, and knows no site and no plan: systemd speaks to PID 1 and reads its journal
// and clock; unitfile reads and edits units; nodefile reads a file with a deadline and a limit; atomicfile replaces
// one; machineid, apiaddress and signature check machine ids, addresses of API servers and signed texts; registry gets
// sites from servers that are not trusted.
//
// The wing imports model and fault. It never decides: a package here that knows why it is called is in the wrong wing.
//
// Start with nodefile: a file that a site, a mount or another user may have changed is read through it.
package platform
