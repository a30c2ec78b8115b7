package hardware

// vendorName is the vendor of a PCI vendor id, in lower case, one word, as sites write it. Empty: not known.
// Virtual machines' cards go by the name of who owns the id: virtio is "redhat". Source: pci.ids 2026.10.24.
func vendorName(id string) string {
	switch id {
	case "1002", "1022":
		return "amd"
	case "8086":
		return "intel"
	case "10de":
		return "nvidia"
	case "15b3":
		return "mellanox"
	case "14e4":
		return "broadcom"
	case "1d0f":
		return "amazon"
	case "1ae0":
		return "google"
	case "1414":
		return "microsoft"
	case "1af4", "1b36":
		return "redhat"
	case "15ad":
		return "vmware"
	case "5853":
		return "xen"
	case "1da3":
		return "habana"
	case "10ee":
		return "xilinx"
	case "1172":
		return "altera"
	case "19e5":
		return "huawei"
	case "cabc":
		return "cambricon"
	case "1e60":
		return "hailo"
	case "1ed5":
		return "moorethreads"
	case "1e3e":
		return "iluvatar"
	case "1e36":
		return "enflame"
	case "1d94":
		return "hygon"
	case "1014":
		return "ibm"
	case "1077":
		return "qlogic"
	case "10df", "19a2":
		return "emulex"
	case "10ec":
		return "realtek"
	case "11ab", "1d6a":
		return "marvell"
	case "1425":
		return "chelsio"
	case "1924":
		return "solarflare"
	case "177d":
		return "cavium"
	case "1137":
		return "cisco"
	case "1dd8":
		return "pensando"
	case "18f4":
		return "napatech"
	case "168c", "17cb", "1969":
		return "qualcomm"
	case "14c3":
		return "mediatek"
	case "1a03":
		return "aspeed"
	case "102b":
		return "matrox"
	}
	return ""
}

// vendorPrefixes are what a name begins with when its vendor has put itself in front: a label "nvidia-<model>" must not
// become "nvidia-nvidia-…".
func vendorPrefixes(vendorID string) []string {
	switch vendorID {
	case "10de":
		return []string{"NVIDIA "}
	case "1002", "1022":
		return []string{"AMD "}
	case "8086":
		return []string{"Intel(R) ", "Intel "}
	case "1da3":
		return []string{"Habana "}
	case "1d0f":
		return []string{"AWS ", "Amazon "}
	}
	return nil
}
