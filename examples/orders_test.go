//go:build !race

package examples

// orders are how many orders of answers TestLiveAndReplay tries.
const orders = 20
