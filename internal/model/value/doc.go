// Package value makes values of cty, and reads and writes them as a site does: literals, keys and paths. For a fact
// that a machine does not have, or that is not known yet, it makes a value of the right type, so that an expression can
// be checked without the machine. Decoders are in codec, functions in functions.
package value
