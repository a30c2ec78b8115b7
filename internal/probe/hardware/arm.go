package hardware

// Arm's processors report two numbers where x86's report a name: the implementer and the part (MIDR_EL1). The
// names are those of lscpu, for processors of servers and of small boards that are used as nodes.
// Source: Linux' arch/arm64/include/asm/cputype.h and util-linux' sys-utils/lscpu-arm.c.
var armImplementers = map[string]string{
	"0x41": "ARM",
	"0x43": "Cavium",
	"0x46": "FUJITSU",
	"0x48": "HiSilicon",
	"0x4e": "NVIDIA",
	"0x50": "APM",
	"0x51": "Qualcomm",
	"0x61": "Apple",
	"0x6d": "Microsoft",
	"0x70": "Phytium",
	"0xc0": "Ampere",
}

// armParts are the names of cores, by implementer and part.
var armParts = map[string]string{
	"0x41 0xd03": "Cortex-A53",
	"0x41 0xd05": "Cortex-A55",
	"0x41 0xd08": "Cortex-A72",
	"0x41 0xd0b": "Cortex-A76",
	"0x41 0xd0c": "Neoverse-N1", // Graviton 2, Ampere Altra
	"0x41 0xd40": "Neoverse-V1", // Graviton 3
	"0x41 0xd49": "Neoverse-N2",
	"0x41 0xd4f": "Neoverse-V2", // Graviton 4, Grace, Axion
	"0x41 0xd83": "Neoverse-V3AE",
	"0x41 0xd84": "Neoverse-V3",
	"0x41 0xd8e": "Neoverse-N3",
	"0x43 0x0af": "ThunderX2-99xx",
	"0x46 0x001": "A64FX",
	"0x48 0xd01": "TaiShan-v110", // Kunpeng 920
	"0x4e 0x004": "Carmel",
	"0x50 0x000": "X-Gene",
	"0x51 0xc00": "Falkor",
	"0x6d 0xd49": "Azure-Cobalt-100",
	"0xc0 0xac3": "Ampere-1",
	"0xc0 0xac4": "Ampere-1a",
}
