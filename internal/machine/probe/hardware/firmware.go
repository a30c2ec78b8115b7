package hardware

import (
	"strings"
	"unicode/utf8"

	"github.com/jaypipes/ghw"
)

const (
	dmiFolder        = "sys/class/dmi/id"
	deviceTreeFolder = "proc/device-tree"
	// deviceTreeSource is the folder that ghw reads, and that /proc/device-tree links to.
	deviceTreeSource = "sys/firmware/devicetree/base"
)

// firmwareText is a fact of the firmware: the text of ghw, and its file in the tables of DMI or in the device
// tree, which machines without DMI have, such as most of Arm's.
type firmwareText struct {
	fact, dmi, deviceTree, text string
	into                        **string
}

// readFirmware reads product, BIOS, chassis and baseboard.
func (d *detection) readFirmware() {
	d.copyFiles(dmiFolder + "/*") // if the folder exists, ghw does not read the device tree

	for _, name := range []string{"model", "compatible", "serial-number", "chassis-type", "chosen/u-boot,version"} {
		d.copyFile(deviceTreeFolder+"/"+name, deviceTreeSource+"/"+name)
	}

	product, productErr := readWithLibrary(d, "product", ghw.Product)
	bios, biosErr := readWithLibrary(d, "bios", ghw.BIOS)
	chassis, chassisErr := readWithLibrary(d, "chassis", ghw.Chassis)
	board, boardErr := readWithLibrary(d, "baseboard", ghw.Baseboard)

	p := &d.facts.Product
	b := &d.facts.BIOS
	c := &d.facts.Chassis
	m := &d.facts.Baseboard

	d.setFirmware(productErr, []firmwareText{
		{"product.name", "product_name", "model", product.Name, &p.Name},
		{"product.vendor", "sys_vendor", "compatible", product.Vendor, &p.Vendor},
		{"product.serial", "product_serial", "serial-number", product.SerialNumber, &p.Serial},
		{"product.uuid", "product_uuid", "", product.UUID, &p.UUID},
		{"product.sku", "product_sku", "", product.SKU, &p.SKU},
	})
	d.setFirmware(biosErr, []firmwareText{
		{"bios.vendor", "bios_vendor", "chosen/u-boot,version", bios.Vendor, &b.Vendor},
		{"bios.version", "bios_version", "chosen/u-boot,version", bios.Version, &b.Version},
		{"bios.date", "bios_date", "", bios.Date, &b.Date},
	})
	d.setFirmware(chassisErr, []firmwareText{
		{"chassis.type", "chassis_type", "chassis-type", chassis.TypeDescription, &c.Type},
		{"chassis.vendor", "chassis_vendor", "compatible", chassis.Vendor, &c.Vendor},
		{"chassis.version", "chassis_version", "model", chassis.Version, &c.Version},
		{"chassis.serial", "chassis_serial", "serial-number", chassis.SerialNumber, &c.Serial},
		{"chassis.asset_tag", "chassis_asset_tag", "", chassis.AssetTag, &c.AssetTag},
	})
	d.setFirmware(boardErr, []firmwareText{
		{"baseboard.name", "board_name", "model", board.Product, &m.Name},
		{"baseboard.vendor", "board_vendor", "compatible", board.Vendor, &m.Vendor},
		{"baseboard.version", "board_version", "", board.Version, &m.Version},
		{"baseboard.serial", "board_serial", "serial-number", board.SerialNumber, &m.Serial},
		{"baseboard.asset_tag", "board_asset_tag", "", board.AssetTag, &m.AssetTag},
	})
}

// readWithLibrary reads a fact with ghw, and returns an empty result if that fails.
func readWithLibrary[T any](
	d *detection,
	fact string,
	call func(...any) (*T, error),
) (*T, error) {
	info, warnings, err := callLibrary(d, call)
	d.noteWarnings(fact, warnings)

	if err != nil {
		return new(T), err
	}

	return info, nil
}

// setFirmware sets the known texts, and notes why the others are unknown.
func (d *detection) setFirmware(err error, texts []firmwareText) {
	_, dmiErr := d.ReadDir(dmiFolder)
	_, treeErr := d.readText(deviceTreeFolder + "/model")

	for _, t := range texts {
		file := dmiFolder + "/" + t.dmi
		if isAbsent(dmiErr) && treeErr == nil {
			file = deviceTreeFolder + "/" + t.deviceTree
		}

		switch {
		case err != nil:
			d.noteBroken(t.fact, err.Error())
		case !utf8.ValidString(t.text):
			d.note(t.fact, "the firmware gives bytes that are not a text")
		case !strings.EqualFold(t.text, unknown) && !isPlaceholder(t.text):
			*t.into = &t.text
			d.setSource(t.fact, file)
		case isAbsent(dmiErr) && isAbsent(treeErr): // a small hypervisor
			d.note(t.fact, "there is neither /"+dmiFolder+" nor a device tree")
		case strings.HasSuffix(file, "/"):
			d.note(t.fact, "the firmware does not give it")
		default:
			d.noteFirmware(t.fact, file)
		}
	}
}

// noteFirmware notes why a text is unknown, which ghw does not report.
func (d *detection) noteFirmware(fact, file string) {
	switch _, err := d.readText(file); {
	case isAbsent(err) && !strings.HasPrefix(fact, "product."): // the same reason for many missing files
		d.note(fact, "the firmware does not give it")
	case err != nil:
		d.noteError(fact, err)
	default:
		d.note(fact, "the firmware leaves it at a placeholder")
	}
}
