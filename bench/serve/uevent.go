package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeEvents gives each PCI function of a machine the file that the kernel sums it up in. Source: pci_uevent in Linux'
// drivers/pci/pci-driver.c.
func writeEvents(machine string) error {
	folders, err := filepath.Glob(filepath.Join(machine, "sys/bus/pci/devices/*"))
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if _, err := os.Stat(filepath.Join(folder, "subsystem_vendor")); err != nil {
			continue // the description does not say all that the kernel would
		}
		ids := map[string]string{}
		for _, name := range []string{"class", "vendor", "device", "subsystem_vendor", "subsystem_device"} {
			text, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				return err
			}
			ids[name] = strings.ToUpper(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"))
		}
		driver := ""
		if target, err := os.Readlink(filepath.Join(folder, "driver")); err == nil {
			driver = "DRIVER=" + filepath.Base(target) + "\n"
		}
		text := fmt.Sprintf("%sPCI_CLASS=%s\nPCI_ID=%s:%s\nPCI_SUBSYS_ID=%s:%s\nPCI_SLOT_NAME=%s\n", driver, strings.TrimLeft(ids["class"], "0"),
			ids["vendor"], ids["device"], ids["subsystem_vendor"], ids["subsystem_device"], filepath.Base(folder))
		if err := os.WriteFile(filepath.Join(folder, "uevent"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
