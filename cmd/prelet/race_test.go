//go:build race

package main

// scenarioRetry is how long a scenario asks a cluster that does not answer.
const scenarioRetry = "2s"
