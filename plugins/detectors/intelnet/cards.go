package intelnet

// card is one device id of Intel's.
type card struct {
	id      string
	family  string
	model   string
	gbps    int  // the fastest that a port of it was built for; 0: several speeds under one id
	virtual bool // a virtual function
}

// cards returns the known ids. Ids and models are of the PCI ID database of 2026-10-24, speeds of Intel's data sheets and
// of the drivers ixgbe, i40e and ice.
func cards() []card {
	return []card{
		{"10f7", "82599", "82599 10 Gigabit KX4 Dual Port", 10, false},
		{"10f8", "82599", "82599 10 Gigabit Dual Port Backplane", 10, false},
		{"10f9", "82599", "82599 10 Gigabit Dual Port", 10, false},
		{"10fb", "82599", "82599ES 10-Gigabit SFI/SFP+", 10, false},
		{"10fc", "82599", "82599 10 Gigabit Dual Port", 10, false},
		{"1507", "82599", "X520-P2", 10, false},
		{"1514", "82599", "X520 10GbE Dual Port KX4 Mezz", 10, false},
		{"1517", "82599", "82599ES 10 Gigabit", 10, false},
		{"151c", "82599", "82599 10 Gigabit TN", 10, false},
		{"1529", "82599", "82599 10 Gigabit Dual Port with FCoE", 10, false},
		{"152a", "82599", "82599 10 Gigabit Dual Port Backplane with FCoE", 10, false},
		{"154a", "82599", "X520-4", 10, false},
		{"154d", "82599", "X520 10G 2P", 10, false},
		{"1557", "82599", "82599 10 Gigabit", 10, false},
		{"1558", "82599", "X520-Q1", 10, false},
		{"104e", "X710", "X710 for 10 Gigabit SFP+", 10, false},
		{"104f", "X710", "X710 for 10 Gigabit backplane", 10, false},
		{"1572", "X710", "X710 for 10GbE SFP+", 10, false},
		{"1581", "X710", "X710 for 10GbE backplane", 10, false},
		{"1585", "X710", "X710 for 10GbE QSFP+", 10, false},
		{"1586", "X710", "X710 for 10GBASE-T", 10, false},
		{"1589", "X710", "X710/X557-AT 10GBASE-T", 10, false},
		{"15ff", "X710", "X710 for 10GBASE-T", 10, false},
		{"101f", "V710", "V710 for 5GBASE-T", 5, false},
		{"1587", "XL710", "XL710 for 20GbE backplane", 20, false},
		{"1588", "XL710", "XL710 for 20GbE backplane", 20, false},
		{"1580", "XL710", "XL710 for 40GbE backplane", 40, false},
		{"1583", "XL710", "XL710 for 40GbE QSFP+", 40, false},
		{"1584", "XL710", "XL710 for 40GbE QSFP+", 40, false},
		{"0d58", "XXV710", "XXV710 FPGA Programmable Acceleration Card N3000 for Networking", 25, false},
		{"158a", "XXV710", "XXV710 for 25GbE backplane", 25, false},
		{"158b", "XXV710", "XXV710 for 25GbE SFP28", 25, false},
		{"0dda", "X722", "X722 for 10GbE SFP+", 10, false},
		{"37ce", "X722", "X722 for 10GbE backplane", 10, false},
		{"37cf", "X722", "X722 for 10GbE QSFP+", 10, false},
		{"37d0", "X722", "X722 for 10GbE SFP+", 10, false},
		{"37d2", "X722", "X722 for 10GBASE-T", 10, false},
		{"37d3", "X722", "X722 for 10GbE SFP+", 10, false},
		{"37d1", "X722", "X722 for 1GbE", 1, false},
		{"1591", "E810", "E810-C for backplane", 100, false},
		{"1592", "E810", "E810-C for QSFP", 100, false},
		{"1593", "E810", "E810-C for SFP", 25, false},
		{"1599", "E810-XXV", "E810-XXV for backplane", 25, false},
		{"159a", "E810-XXV", "E810-XXV for QSFP", 25, false},
		{"159b", "E810-XXV", "E810-XXV for SFP", 25, false},
		{"124c", "E823", "E823-L for backplane", 0, false},
		{"124d", "E823", "E823-L for SFP", 25, false},
		{"188a", "E823", "E823-C for backplane", 0, false},
		{"188b", "E823", "E823-C for QSFP", 0, false},
		{"188c", "E823", "E823-C for SFP", 25, false},
		{"124e", "E823", "E823-L/X557-AT 10GBASE-T", 10, false},
		{"188d", "E823", "E823-C/X557-AT 10GBASE-T", 10, false},
		{"124f", "E823", "E823-L 1GbE", 1, false},
		{"188e", "E823", "E823-C 1GbE", 1, false},
		{"579c", "E825", "E825-C for backplane", 0, false},
		{"579d", "E825", "E825-C for QSFP", 0, false},
		{"579e", "E825", "E825-C for SFP", 25, false},
		{"579f", "E825", "E825-C 10GbE", 10, false},
		{"12d1", "E830", "E830-CC for backplane", 0, false},
		{"12d2", "E830", "E830-CC for QSFP", 200, false},
		{"12d3", "E830", "E830-CC for SFP", 25, false},
		{"12d4", "E830", "E830-CC for SFP-DD", 0, false},
		{"10ed", "82599", "82599 Virtual Function", 0, true},
		{"154c", "700 series", "Ethernet Virtual Function 700 Series", 0, true},
		{"1571", "700 series", "Ethernet Virtual Function 700 Series", 0, true},
		{"37cd", "X722", "X722 Virtual Function", 0, true},
		{"1889", "Adaptive", "Ethernet Adaptive Virtual Function", 0, true},
	}
}
