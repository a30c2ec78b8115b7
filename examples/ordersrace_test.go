//go:build race

package examples

// orders is smaller with the race detector, which makes each ten times as slow and sees in a few what there is to see.
const orders = 4
