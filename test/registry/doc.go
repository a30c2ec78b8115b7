// Package registry pushes sites to the registry of the distribution project, in this process, and pulls them. It is a
// module of its own, so that the libraries of that registry are none of prelet's.
package registry
