//go:build cgo

package pluginhost

const withC = true
