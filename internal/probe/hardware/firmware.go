package hardware

import (
	"strings"
	"unicode/utf8"

	"github.com/jaypipes/ghw"

	"github.com/prelet/prelet/internal/world"
)

const (
	dmiFolder        = "sys/class/dmi/id"
	deviceTreeFolder = "proc/device-tree"
	// deviceTreeSource is where ghw reads the device tree, to which the kernel's /proc/device-tree links.
	deviceTreeSource = "sys/firmware/devicetree/base"
)

// firmwareText is a fact that the firmware gives: what ghw read, and the files that it comes from, in the tables of DMI
// or in the device tree of machines without DMI, as most of Arm's.
type firmwareText struct {
	fact, dmi, deviceTree, text string
	into                        **string
}

// readFirmware reads product, BIOS, chassis and baseboard.
func (d *detection) readFirmware() {
	if _, err := d.ReadDir(dmiFolder); err == nil { // where the folder is, ghw does not look at the device tree
		for _, name := range dmiFiles() {
			d.lend(dmiFolder + "/" + name)
		}
	}
	for _, name := range []string{"model", "compatible", "serial-number", "chassis-type", "chosen/u-boot,version"} {
		d.lendFile(deviceTreeFolder+"/"+name, deviceTreeSource+"/"+name)
	}

	product, productErr := askFirmware(d, "product", ghw.Product)
	bios, biosErr := askFirmware(d, "bios", ghw.BIOS)
	chassis, chassisErr := askFirmware(d, "chassis", ghw.Chassis)
	board, boardErr := askFirmware(d, "baseboard", ghw.Baseboard)

	var (
		p world.Product
		b world.BIOS
		c world.Chassis
		m world.Baseboard
	)

	d.keepFirmware(productErr, []firmwareText{
		{"product.name", "product_name", "model", product.Name, &p.Name},
		{"product.vendor", "sys_vendor", "compatible", product.Vendor, &p.Vendor},
		{"product.serial", "product_serial", "serial-number", product.SerialNumber, &p.Serial},
		{"product.uuid", "product_uuid", "", product.UUID, &p.UUID},
		{"product.sku", "product_sku", "", product.SKU, &p.SKU},
	})
	d.keepFirmware(biosErr, []firmwareText{
		{"bios.vendor", "bios_vendor", "chosen/u-boot,version", bios.Vendor, &b.Vendor},
		{"bios.version", "bios_version", "chosen/u-boot,version", bios.Version, &b.Version},
		{"bios.date", "bios_date", "", bios.Date, &b.Date},
	})
	d.keepFirmware(chassisErr, []firmwareText{
		{"chassis.type", "chassis_type", "chassis-type", chassis.TypeDescription, &c.Type},
		{"chassis.vendor", "chassis_vendor", "compatible", chassis.Vendor, &c.Vendor},
		{"chassis.version", "chassis_version", "model", chassis.Version, &c.Version},
		{"chassis.serial", "chassis_serial", "serial-number", chassis.SerialNumber, &c.Serial},
		{"chassis.asset_tag", "chassis_asset_tag", "", chassis.AssetTag, &c.AssetTag},
	})
	d.keepFirmware(boardErr, []firmwareText{
		{"baseboard.name", "board_name", "model", board.Product, &m.Name},
		{"baseboard.vendor", "board_vendor", "compatible", board.Vendor, &m.Vendor},
		{"baseboard.version", "board_version", "", board.Version, &m.Version},
		{"baseboard.serial", "board_serial", "serial-number", board.SerialNumber, &m.Serial},
		{"baseboard.asset_tag", "board_asset_tag", "", board.AssetTag, &m.AssetTag},
	})

	d.facts.Product, d.facts.BIOS, d.facts.Chassis, d.facts.Baseboard = p, b, c, m
}

// dmiFiles are the files of DMI that ghw makes facts of.
func dmiFiles() []string {
	return []string{
		"product_name", "sys_vendor", "product_serial", "product_uuid", "product_sku",
		"bios_vendor", "bios_version", "bios_date",
		"chassis_type", "chassis_vendor", "chassis_version", "chassis_serial", "chassis_asset_tag",
		"board_name", "board_vendor", "board_version", "board_serial", "board_asset_tag",
	}
}

// askFirmware asks ghw for a fact, and returns an empty result if that fails.
func askFirmware[T any](d *detection, fact string, call func(...any) (*T, error)) (*T, error) {
	info, warnings, err := ask(d, call)
	d.noteWarnings(fact, warnings)

	if err != nil {
		return new(T), err
	}

	return info, nil
}

// keepFirmware keeps the texts that the firmware gives, and notes why the others are unknown.
func (d *detection) keepFirmware(err error, texts []firmwareText) {
	_, dmiErr := d.ReadDir(dmiFolder)
	_, treeErr := d.text(deviceTreeFolder + "/model")

	for _, t := range texts {
		file := dmiFolder + "/" + t.dmi
		if absent(dmiErr) && treeErr == nil {
			file = deviceTreeFolder + "/" + t.deviceTree
		}

		switch {
		case err != nil:
			d.broken(t.fact, err.Error())
		case !utf8.ValidString(t.text):
			d.note(t.fact, "the firmware gives bytes that are not a text")
		case !strings.EqualFold(t.text, unknown) && !isPlaceholder(t.text):
			*t.into = &t.text
			d.saw(t.fact, file)
		case absent(dmiErr) && absent(treeErr): // small hypervisors give no tables, and nothing else will be there
			d.note(t.fact, "there is neither /"+dmiFolder+" nor a device tree")
		case strings.HasSuffix(file, "/"):
			d.note(t.fact, "the firmware does not give it")
		default:
			d.firmwareReason(t.fact, file)
		}
	}
}

// firmwareReason notes why a text is unknown, which ghw does not report.
func (d *detection) firmwareReason(fact, file string) {
	switch _, err := d.text(file); {
	case absent(err) && !strings.HasPrefix(fact, "product."): // one reason for many, where they are left out
		d.note(fact, "the firmware does not give it")
	case err != nil:
		d.failed(fact, err)
	default:
		d.note(fact, "the firmware leaves it at a placeholder")
	}
}
