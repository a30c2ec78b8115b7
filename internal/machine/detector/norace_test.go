//go:build !race

package detector

const raceDetector = false
