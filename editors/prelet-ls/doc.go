// Command prelet-ls is a language server for prelet's sites. An editor starts it and speaks the Language Server
// Protocol with it over standard input and output. It needs no configuration, no network and no installed prelet.
//
// It is a module of its own, and may import internal/lab and the wings below: it finds the same faults of a site as
// `prelet validate`. It never changes a file: edits are the editor's.
//
// Start with internal/server.
package main
