package hardware

// Arm's processors tell two numbers where x86's tell a name: who made the core, and which one it is (MIDR_EL1). Both are
// named here as lscpu names them, those of servers and of small boards that serve as nodes.
// Source: Linux' arch/arm64/include/asm/cputype.h and util-linux' sys-utils/lscpu-arm.c.

// armImplementer names the maker; others stay unnamed.
func armImplementer(code string) string {
	switch code {
	case "0x41":
		return "ARM"
	case "0x43":
		return "Cavium"
	case "0x46":
		return "FUJITSU"
	case "0x48":
		return "HiSilicon"
	case "0x4e":
		return "NVIDIA"
	case "0x50":
		return "APM"
	case "0x51":
		return "Qualcomm"
	case "0x61":
		return "Apple"
	case "0x6d":
		return "Microsoft"
	case "0x70":
		return "Phytium"
	case "0xc0":
		return "Ampere"
	}
	return ""
}

// armPart names the core of a maker.
func armPart(implementer, part string) string {
	switch implementer + " " + part {
	case "0x41 0xd03":
		return "Cortex-A53"
	case "0x41 0xd05":
		return "Cortex-A55"
	case "0x41 0xd08":
		return "Cortex-A72"
	case "0x41 0xd0b":
		return "Cortex-A76"
	case "0x41 0xd0c":
		return "Neoverse-N1" // Graviton 2, Ampere Altra
	case "0x41 0xd40":
		return "Neoverse-V1" // Graviton 3
	case "0x41 0xd49":
		return "Neoverse-N2"
	case "0x41 0xd4f":
		return "Neoverse-V2" // Graviton 4, Grace, Axion
	case "0x41 0xd83":
		return "Neoverse-V3AE"
	case "0x41 0xd84":
		return "Neoverse-V3"
	case "0x41 0xd8e":
		return "Neoverse-N3"
	case "0x43 0x0af":
		return "ThunderX2-99xx"
	case "0x46 0x001":
		return "A64FX"
	case "0x48 0xd01":
		return "TaiShan-v110" // Kunpeng 920
	case "0x4e 0x004":
		return "Carmel"
	case "0x50 0x000":
		return "X-Gene"
	case "0x51 0xc00":
		return "Falkor"
	case "0x6d 0xd49":
		return "Azure-Cobalt-100"
	case "0xc0 0xac3":
		return "Ampere-1"
	case "0xc0 0xac4":
		return "Ampere-1a"
	}
	return ""
}
