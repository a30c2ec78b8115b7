package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// listPCI reads class, vendor and device of everything on the PCI bus below root's sys/.
func listPCI(root fs.FS) ([][3]string, error) {
	const bus = "sys/bus/pci/devices"
	entries, err := fs.ReadDir(root, bus)
	if err != nil {
		return nil, err
	}
	devices := make([][3]string, 0, len(entries))
	for _, e := range entries {
		var device [3]string
		for i, name := range []string{"class", "vendor", "device"} {
			text, err := fs.ReadFile(root, bus+"/"+e.Name()+"/"+name)
			if err != nil {
				return nil, err
			}
			device[i] = strings.TrimSpace(string(text))
		}
		devices = append(devices, device)
	}
	return devices, nil
}

// writeFour writes and fsyncs each file below folder.
func writeFour(folder string, files map[string]string) error {
	if len(files) != 4 {
		return fmt.Errorf("%d files are not the floor, four are", len(files))
	}
	for name, text := range files {
		if err := writeOne(filepath.Join(folder, name), text); err != nil {
			return err
		}
	}
	return nil
}

func writeOne(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.Sync()
}
