package hardware

import (
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/jaypipes/ghw"

	"github.com/prelet/prelet/internal/world"
)

const (
	blockFolder = "sys/block"
	udevFolder  = "run/udev/data"
)

// readBlockDevices reads the disks and drives. What the kernel makes of others is left out: loop devices, device
// mapper, RAID, compressed memory.
func (d *detection) readBlockDevices() error {
	names, err := d.names(blockFolder)
	if err != nil {
		d.failed("block_devices", err)
		return nil
	}

	// ghw finds udev's entry of a device by its number.
	for _, name := range names {
		if number, err := d.text(blockFolder + "/" + name + "/dev"); err == nil && isFileName(number) {
			d.lend(udevFolder + "/b" + number)
		}
	}

	info, err := ask(d, slog.DiscardHandler, ghw.Block,
		blockFolder+"/*/dev", blockFolder+"/*/size", blockFolder+"/*/removable", blockFolder+"/*/queue/rotational",
		blockFolder+"/*/queue/physical_block_size", blockFolder+"/*/device/vendor")
	if err != nil {
		d.broken("block_devices", err.Error())
		return nil
	}

	devices := []world.BlockDevice{}

	for _, disk := range info.Disks {
		target, err := d.ReadLink(blockFolder + "/" + disk.Name)
		if err == nil && strings.Contains(target, "/virtual/block/") {
			continue
		}
		devices = append(devices, d.blockDevice(disk))
	}

	d.facts.BlockDevices = devices

	if len(devices) > 0 {
		d.saw("block_devices[]", blockFolder+"/{address}/")
		for _, field := range []string{"model", "serial", "wwn"} {
			d.saw("block_devices[]."+field, udevFolder+"/")
		}
	}

	return nil
}

func (d *detection) blockDevice(disk *ghw.Disk) world.BlockDevice {
	fact := "block_devices[" + disk.Name + "]."

	// known returns a text of ghw's, or nil and a note.
	known := func(field, text, why string) *string {
		if text == "" || strings.EqualFold(text, unknown) || !utf8.ValidString(text) {
			d.note(fact+field, why)
			return nil
		}
		return &text
	}

	const noUdev, noKind = "udev's database does not have it", "the name of the device does not tell it"

	b := world.BlockDevice{
		Name:       disk.Name,
		Removable:  disk.IsRemovable,
		Type:       known("type", strings.ToLower(disk.DriveType.String()), noKind),
		Controller: known("controller", strings.ToLower(disk.StorageController.String()), noKind),
		Vendor:     known("vendor", disk.Vendor, "the kernel does not tell it"),
		Model:      known("model", disk.Model, noUdev),
		Serial:     known("serial", disk.SerialNumber, noUdev),
		WWN:        known("wwn", disk.WWN, noUdev),
	}

	// ghw reports 0 for what it could not read, and an empty drive has the size 0.
	size := int64(disk.SizeBytes)

	switch _, err := d.text(blockFolder + "/" + disk.Name + "/size"); {
	case err != nil:
		d.failed(fact+"size_bytes", err)
	case size < 0:
		d.note(fact+"size_bytes", "the kernel gives a size that cannot be true")
	default:
		b.SizeBytes = &size
	}

	if block := int(disk.PhysicalBlockSizeBytes); block > 0 {
		b.PhysicalBlock = &block
	} else {
		d.note(fact+"physical_block_bytes", "the kernel does not tell it")
	}

	rotational := disk.DriveType == ghw.DriveTypeHDD

	switch _, err := d.text(blockFolder + "/" + disk.Name + "/queue/rotational"); {
	case !rotational && disk.DriveType != ghw.DriveTypeSSD:
		d.note(fact+"rotational", "it is neither a hard disk nor a solid-state disk")
	case err != nil: // ghw takes it for a solid-state disk
		b.Type = nil
		d.failed(fact+"rotational", err)
		d.failed(fact+"type", err)
	default:
		b.Rotational = &rotational
	}

	return b
}
