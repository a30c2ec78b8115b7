// Package schema declares the language: a block is a list of attributes and blocks with their types, defaults and docs.
// Decoding, the check of references, the reference pages and `prelet schema -o json` use the same declarations.
//
// The wing imports platform, model and fault. It never evaluates expressions itself, and reads or writes nothing.
//
// Start with Block, then Decode.
package schema
