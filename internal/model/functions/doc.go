// Package functions has the functions that a site's expressions may call, and checks what an expression does with
// secrets. A function has the same result for the same arguments: it reads no file, clock, network or environment. Its
// result has a limit, and a secret is only joined, encoded or passed on.
package functions
