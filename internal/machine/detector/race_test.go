//go:build race

package detector

const raceDetector = true
