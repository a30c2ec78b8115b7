package intelnet

// card is a model with its device id.
type card struct {
	id     string
	family string
	model  string
	gbps   int // the speed that a port was built for; 0: several speeds have this id
}

// cards returns the known cards. Sources: PCI ID database of 2026-10-24 for ids and models; Intel's data sheets and
// the drivers ixgbe, i40e and ice for speeds.
func cards() []card {
	return []card{
		{"10f7", "82599", "82599 10 Gigabit KX4 Dual Port", 10},
		{"10f8", "82599", "82599 10 Gigabit Dual Port Backplane", 10},
		{"10f9", "82599", "82599 10 Gigabit Dual Port", 10},
		{"10fb", "82599", "82599ES 10-Gigabit SFI/SFP+", 10},
		{"10fc", "82599", "82599 10 Gigabit Dual Port", 10},
		{"1507", "82599", "X520-P2", 10},
		{"1514", "82599", "X520 10GbE Dual Port KX4 Mezz", 10},
		{"1517", "82599", "82599ES 10 Gigabit", 10},
		{"151c", "82599", "82599 10 Gigabit TN", 10},
		{"1529", "82599", "82599 10 Gigabit Dual Port with FCoE", 10},
		{"152a", "82599", "82599 10 Gigabit Dual Port Backplane with FCoE", 10},
		{"154a", "82599", "X520-4", 10},
		{"154d", "82599", "X520 10G 2P", 10},
		{"1557", "82599", "82599 10 Gigabit", 10},
		{"1558", "82599", "X520-Q1", 10},
		{"104e", "X710", "X710 for 10 Gigabit SFP+", 10},
		{"104f", "X710", "X710 for 10 Gigabit backplane", 10},
		{"1572", "X710", "X710 for 10GbE SFP+", 10},
		{"1581", "X710", "X710 for 10GbE backplane", 10},
		{"1585", "X710", "X710 for 10GbE QSFP+", 10},
		{"1586", "X710", "X710 for 10GBASE-T", 10},
		{"1589", "X710", "X710/X557-AT 10GBASE-T", 10},
		{"15ff", "X710", "X710 for 10GBASE-T", 10},
		{"101f", "V710", "V710 for 5GBASE-T", 5},
		{"1587", "XL710", "XL710 for 20GbE backplane", 20},
		{"1588", "XL710", "XL710 for 20GbE backplane", 20},
		{"1580", "XL710", "XL710 for 40GbE backplane", 40},
		{"1583", "XL710", "XL710 for 40GbE QSFP+", 40},
		{"1584", "XL710", "XL710 for 40GbE QSFP+", 40},
		{"0d58", "XXV710", "XXV710 FPGA Programmable Acceleration Card N3000 for Networking", 25},
		{"158a", "XXV710", "XXV710 for 25GbE backplane", 25},
		{"158b", "XXV710", "XXV710 for 25GbE SFP28", 25},
		{"0dda", "X722", "X722 for 10GbE SFP+", 10},
		{"37ce", "X722", "X722 for 10GbE backplane", 10},
		{"37cf", "X722", "X722 for 10GbE QSFP+", 10},
		{"37d0", "X722", "X722 for 10GbE SFP+", 10},
		{"37d2", "X722", "X722 for 10GBASE-T", 10},
		{"37d3", "X722", "X722 for 10GbE SFP+", 10},
		{"37d1", "X722", "X722 for 1GbE", 1},
		{"1591", "E810", "E810-C for backplane", 100},
		{"1592", "E810", "E810-C for QSFP", 100},
		{"1593", "E810", "E810-C for SFP", 25},
		{"1599", "E810-XXV", "E810-XXV for backplane", 25},
		{"159a", "E810-XXV", "E810-XXV for QSFP", 25},
		{"159b", "E810-XXV", "E810-XXV for SFP", 25},
		{"124c", "E823", "E823-L for backplane", 0},
		{"124d", "E823", "E823-L for SFP", 25},
		{"188a", "E823", "E823-C for backplane", 0},
		{"188b", "E823", "E823-C for QSFP", 0},
		{"188c", "E823", "E823-C for SFP", 25},
		{"124e", "E823", "E823-L/X557-AT 10GBASE-T", 10},
		{"188d", "E823", "E823-C/X557-AT 10GBASE-T", 10},
		{"124f", "E823", "E823-L 1GbE", 1},
		{"188e", "E823", "E823-C 1GbE", 1},
		{"579c", "E825", "E825-C for backplane", 0},
		{"579d", "E825", "E825-C for QSFP", 0},
		{"579e", "E825", "E825-C for SFP", 25},
		{"579f", "E825", "E825-C 10GbE", 10},
		{"12d1", "E830", "E830-CC for backplane", 0},
		{"12d2", "E830", "E830-CC for QSFP", 200},
		{"12d3", "E830", "E830-CC for SFP", 25},
		{"12d4", "E830", "E830-CC for SFP-DD", 0},
	}
}

// virtualCards returns the known virtual functions.
func virtualCards() []card {
	return []card{
		{"10ed", "82599", "82599 Virtual Function", 0},
		{"154c", "700 series", "Ethernet Virtual Function 700 Series", 0},
		{"1571", "700 series", "Ethernet Virtual Function 700 Series", 0},
		{"37cd", "X722", "X722 Virtual Function", 0},
		{"1889", "Adaptive", "Ethernet Adaptive Virtual Function", 0},
	}
}
