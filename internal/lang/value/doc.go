// Package value is what prelet adds to cty: the two marks, the one way out of them, placeholders for
// credentials, absent and unknown values, bounded decoders, the table of functions, the rewriting of
// expressions that keeps secrets from being looked into, and the redactor that stands before every writer.
//
// A credential is never in a value. In its place stands a placeholder, U+E000 "cred:NAME" U+E001, that carries the
// mark [Secret]; [ResolvePlaceholders] puts the bytes in at commit, and nowhere else. A value with that mark can be
// carried (templates, branches of ?:, merge, concat, join, values, coalesce, try, format with %s) and encoded
// (base64encode, sha256, jsonencode, yamlencode: placeholders around placeholders). Whatever would look into it is
// refused: each function by its own wrapper, each operator, condition, index and key by [Prepare].
//
// An expression is to be evaluated only after [Prepare]. It puts wrappers around some nodes; who looks at the type
// of a node calls [Unwrap] first.
//
// The package is pure: it reads no file, clock, network or environment, and has no state of its own.
package value
