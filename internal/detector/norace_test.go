//go:build !race

package pluginhost

const raceDetector = false
