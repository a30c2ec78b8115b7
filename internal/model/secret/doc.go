// Package secret keeps credentials out of everything but the files that need them. It has marks and placeholders for
// values, the text of a file, and the redactor of all output. It must not read files, the clock, the network or the
// environment.
//
// A credential's bytes are never in a value: its value is a placeholder with a [Mark], and only [ResolvePlaceholders]
// inserts the bytes, at commit. functions.CheckSecrets must accept an expression before it is evaluated. Libraries also
// print values in their messages, so a [Redactor] is in front of every writer.
package secret
