//go:build race

package pluginhost

const raceDetector = true
