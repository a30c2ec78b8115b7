package hardware

// vendorNames are the vendors of PCI vendor ids, in lower case, one word, as sites write them. The cards of virtual
// machines have the name of the owner of the id: virtio is "redhat". Source: pci.ids 2026.10.24.
var vendorNames = map[string]string{
	"1002": "amd",
	"1014": "ibm",
	"1022": "amd",
	"102b": "matrox",
	"1077": "qlogic",
	"10de": "nvidia",
	"10df": "emulex",
	"10ec": "realtek",
	"10ee": "xilinx",
	"1137": "cisco",
	"1172": "altera",
	"11ab": "marvell",
	"1414": "microsoft",
	"1425": "chelsio",
	"14c3": "mediatek",
	"14e4": "broadcom",
	"15ad": "vmware",
	"15b3": "mellanox",
	"168c": "qualcomm",
	"177d": "cavium",
	"17cb": "qualcomm",
	"18f4": "napatech",
	"1924": "solarflare",
	"1969": "qualcomm",
	"19a2": "emulex",
	"19e5": "huawei",
	"1a03": "aspeed",
	"1ae0": "google",
	"1af4": "redhat",
	"1b36": "redhat",
	"1d0f": "amazon",
	"1d6a": "marvell",
	"1d94": "hygon",
	"1da3": "habana",
	"1dd8": "pensando",
	"1e36": "enflame",
	"1e3e": "iluvatar",
	"1e60": "hailo",
	"1ed5": "moorethreads",
	"5853": "xen",
	"8086": "intel",
	"cabc": "cambricon",
}

// vendorPrefixes are the beginnings of names that already contain the vendor: a label "nvidia-<model>" must not
// become "nvidia-nvidia-…".
var vendorPrefixes = map[string][]string{
	"10de": {"NVIDIA "},
	"1002": {"AMD "},
	"1022": {"AMD "},
	"8086": {"Intel(R) ", "Intel "},
	"1da3": {"Habana "},
	"1d0f": {"AWS ", "Amazon "},
}
