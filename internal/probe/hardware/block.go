package hardware

import (
	"fmt"
	"math"
	"slices"
	"strconv"
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
// mapper, RAID, compressed memory. The kernel hides the paths of an NVMe disk with multipath (nvme0c0n1), which are left
// out too: the disk itself (nvme0n1) is listed.
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

	info, warnings, err := ask(d, ghw.Block,
		blockFolder+"/*/dev", blockFolder+"/*/queue/rotational", blockFolder+"/*/device/vendor")
	d.noteWarnings("block_devices", warnings)

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

		if hidden, err := d.text(blockFolder + "/" + disk.Name + "/hidden"); err == nil && hidden == "1" {
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

// blockDevice reads one disk. Numbers are read directly, because ghw reports 0 or false for one that it cannot read.
func (d *detection) blockDevice(disk *ghw.Disk) world.BlockDevice {
	fact, folder := "block_devices["+disk.Name+"].", blockFolder+"/"+disk.Name

	// known returns a text of ghw's, or nil and a note.
	known := func(field, text, why string) *string {
		if text == "" || strings.EqualFold(text, unknown) || !utf8.ValidString(text) {
			d.note(fact+field, why)
			return nil
		}
		return &text
	}

	const (
		noUdev = "udev's database does not have it"
		noKind = "the device's name is not of a kind that is known"
	)

	b := world.BlockDevice{
		Name:       disk.Name,
		Type:       known("type", strings.ToLower(disk.DriveType.String()), noKind),
		Controller: known("controller", strings.ToLower(disk.StorageController.String()), noKind),
		Vendor:     known("vendor", disk.Vendor, "the kernel does not report it"),
		Model:      known("model", disk.Model, noUdev),
		Serial:     known("serial", disk.SerialNumber, noUdev),
		WWN:        known("wwn", disk.WWN, noUdev),
	}

	const sector = 512 // bytes, whatever the sectors of the device are

	if sectors, ok := d.attribute(fact+"size_bytes", folder+"/size", 0, math.MaxInt64/sector); ok {
		size := sectors * sector // 0 is an empty drive
		b.SizeBytes = &size
	}

	if bytes, ok := d.attribute(fact+"physical_block_bytes", folder+"/queue/physical_block_size", 1, math.MaxInt32); ok {
		block := int(bytes)
		b.PhysicalBlock = &block
	}

	if removable, ok := d.attribute(fact+"removable", folder+"/removable", 0, 1); ok {
		isRemovable := removable == 1
		b.Removable = &isRemovable
	}

	if slices.Contains([]ghw.DriveType{ghw.DriveTypeODD, ghw.DriveTypeFDD}, disk.DriveType) {
		d.note(fact+"rotational", "it is neither a hard disk nor a solid-state disk")
		return b
	}

	if rotational, ok := d.attribute(fact+"rotational", folder+"/queue/rotational", 0, 1); ok {
		isRotational := rotational == 1
		b.Rotational = &isRotational
	} else if b.Type != nil { // for ghw it is a solid-state disk
		b.Type = nil
		d.note(fact+"type", "whether it is rotational is not known")
	}

	return b
}

// attribute reads a number from a file. If the file has no number from least to most, it notes why and returns false.
func (d *detection) attribute(fact, file string, least, most int64) (int64, bool) {
	text, err := d.text(file)
	if err != nil {
		d.failed(fact, err)
		return 0, false
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		d.note(fact, fmt.Sprintf("/%s contains %.40q, not a number from %d to %d", file, text, least, most))
		return 0, false
	}

	return n, true
}
