//go:build !linux

package hardware

func openFolder(name string) (Opened, error) { return openRoot(name) }
