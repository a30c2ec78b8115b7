// Package value extends cty with the values of a site's language: marks for secrets,
// placeholders for credentials, absent values, bounded decoders, the functions, and the redactor of all output.
// Packages that evaluate or print values use it. It must not read files, the clock, the network or the environment,
// and has no state.
//
// A credential's bytes are never in a value: its value is a placeholder with the mark [Secret], and only
// [ResolvePlaceholders] inserts the bytes, at commit. [CheckSecrets] must accept an expression before it is evaluated.
// Libraries also print values in their messages, so a [Redactor] is in front of every writer.
package value
