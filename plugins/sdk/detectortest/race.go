//go:build race

package detectortest

const raceDetector = true
