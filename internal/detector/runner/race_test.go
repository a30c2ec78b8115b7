//go:build race

package inside

const raceDetector = true
