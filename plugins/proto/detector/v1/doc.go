// Package detectorv1 is detector.v1 in Go, generated from detector.proto by `make proto`. It is what goes over the
// wire and nothing else; a detector in Go is written against plugins/sdk.
package detectorv1
