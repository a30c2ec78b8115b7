package hardware

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jaypipes/ghw"

	"github.com/prelet/prelet/internal/model/tape"
)

const (
	blockFolder = "sys/block"
	udevFolder  = "run/udev/data"
)

// readBlockDevices reads the disks and drives. The kernel's own devices are omitted: loop devices, device mapper,
// RAID, compressed memory. The kernel hides the paths of an NVMe disk with multipath (nvme0c0n1), which are
// omitted, too; the disk itself (nvme0n1) is listed.
func (d *detection) readBlockDevices() error {
	names, err := d.list(blockFolder)
	if err != nil {
		d.noteError("block_devices", err)
		return nil
	}

	// ghw finds udev's entry of a device by its number.
	for _, name := range names {
		number, _ := d.readText(blockFolder + "/" + name + "/dev")
		if isFileName(number) {
			d.copyFiles(udevFolder + "/b" + number)
		}
	}

	info, warnings, err := callLibrary(d, ghw.Block,
		blockFolder+"/*/dev", blockFolder+"/*/queue/rotational", blockFolder+"/*/device/vendor")
	d.noteWarnings("block_devices", warnings)

	if err != nil {
		d.noteBroken("block_devices", err.Error())
		return nil
	}

	devices := []tape.BlockDevice{}

	for _, disk := range info.Disks {
		folder := blockFolder + "/" + disk.Name
		target, _ := d.ReadLink(folder)
		hidden, _ := d.readText(folder + "/hidden")

		if hidden == "1" || strings.Contains(target, "/virtual/block/") {
			continue
		}

		devices = append(devices, d.blockDevice(disk))
	}

	d.facts.BlockDevices = devices

	if len(devices) > 0 {
		d.setSource("block_devices[]", blockFolder+"/{address}/")
		for _, field := range []string{"model", "serial", "wwn"} {
			d.setSource("block_devices[]."+field, udevFolder+"/")
		}
	}

	return nil
}

// blockDevice reads one disk. Numbers are read directly, because ghw reports 0 or false if it cannot read one.
func (d *detection) blockDevice(disk *ghw.Disk) tape.BlockDevice {
	fact := "block_devices[" + disk.Name + "]."
	folder := blockFolder + "/" + disk.Name

	// known returns a text of ghw, nil with a note if it is unknown.
	known := func(field, text, why string) *string {
		isUnknown := text == "" || strings.EqualFold(text, unknown)
		if isUnknown || !utf8.ValidString(text) {
			d.note(fact+field, why)
			return nil
		}

		return &text
	}

	const (
		noUdev = "udev's database does not have it"
		noKind = "the device's name is not of a kind that is known"
	)

	drive := strings.ToLower(disk.DriveType.String())
	controller := strings.ToLower(disk.StorageController.String())

	b := tape.BlockDevice{
		Name:       disk.Name,
		Type:       known("type", drive, noKind),
		Controller: known("controller", controller, noKind),
		Vendor:     known("vendor", disk.Vendor, "the kernel does not report it"),
		Model:      known("model", disk.Model, noUdev),
		Serial:     known("serial", disk.SerialNumber, noUdev),
		WWN:        known("wwn", disk.WWN, noUdev),
		Removable:  d.readFlag(fact+"removable", folder+"/removable"),
		State:      d.readDiskState(fact+"state", folder),
	}
	d.readBlockSizes(&b, fact, folder)

	if disk.DriveType == ghw.DriveTypeODD || disk.DriveType == ghw.DriveTypeFDD {
		d.note(fact+"rotational", "it is neither a hard disk nor a solid-state disk")
		return b
	}

	b.Rotational = d.readFlag(fact+"rotational", folder+"/queue/rotational")
	if b.Rotational == nil && b.Type != nil { // for ghw it is a solid-state disk
		b.Type = nil
		d.note(fact+"type", "whether it is rotational is not known")
	}

	return b
}

// readBlockSizes sets the sizes of a disk and of its blocks.
func (d *detection) readBlockSizes(b *tape.BlockDevice, fact, folder string) {
	const sector = 512 // the kernel's unit, whatever the device's sectors are
	const most = math.MaxInt64 / sector

	sectors, hasSize := d.attribute(fact+"size_bytes", folder+"/size", 0, most)
	if hasSize {
		size := sectors * sector // 0 is an empty drive
		b.SizeBytes = &size
	}

	blockFile := folder + "/queue/physical_block_size"

	bytes, hasBlock := d.attribute(fact+"physical_block_bytes", blockFile, 1, math.MaxInt32)
	if hasBlock {
		block := int(bytes)
		b.PhysicalBlock = &block
	}
}

// readFlag reads 0 or 1 from a file. It returns nil with a note for anything else.
func (d *detection) readFlag(fact, file string) *bool {
	n, ok := d.attribute(fact, file, 0, 1)
	if !ok {
		return nil
	}

	isSet := n == 1

	return &isSet
}

// attribute reads a number from a file. It returns false with a note if the file has no number from least to most.
func (d *detection) attribute(fact, file string, least, most int64) (int64, bool) {
	text, err := d.readText(file)
	if err != nil {
		d.noteError(fact, err)
		return 0, false
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		d.note(fact, fmt.Sprintf("/%s contains %.40q, not a number from %d to %d", file, text, least, most))
		return 0, false
	}

	return n, true
}
