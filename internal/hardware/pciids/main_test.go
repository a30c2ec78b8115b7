package main

import (
	"os"
	"strings"
	"testing"
)

func source(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTableIsOfItsSources(t *testing.T) {
	rules, err := parseRules(source(t, "source/rules.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(source(t, "source/nvidia.tsv"), source(t, "source/devices.tsv"), source(t, "source/pci.ids"), rules)
	if err != nil {
		t.Fatal(err)
	}
	if source(t, "../pci.ids") != want {
		t.Error("pci.ids is not what its sources give; run make pcinames")
	}
	again, err := extract(source(t, "source/pci.ids"), rules)
	if err != nil || strings.Count(again, "\n\t") != strings.Count(source(t, "source/pci.ids"), "\n\t") {
		t.Errorf("the rules choose other lines than there are (%v); run make pcinames PCIIDS=…", err)
	}
}

const database = `#
#	Version: 2026.01.01
#
10de  NVIDIA Corporation
	15f8  GP100GL [Tesla P100 PCIe 16GB]
		10de 118f  A board
	20b0  GA100 [A100 SXM4 40GB]
	ffff  GP100GL [GeForce]
15b3  Mellanox Technologies
	0001  A bridge
C 03  Display controller
	00  VGA
`

func TestGenerate(t *testing.T) {
	rules, err := parseRules("# a comment\n10de\t\\[(Tesla|A1)\tbracket\tNVIDIA \n")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := extract(database, rules)
	if err != nil || !strings.HasPrefix(chosen, "#\n#\tVersion: 2026.01.01\n") ||
		!strings.HasSuffix(chosen, "#\n10de  NVIDIA Corporation\n\t15f8  GP100GL [Tesla P100 PCIe 16GB]\n\t20b0  GA100 [A100 SXM4 40GB]\n") {
		t.Errorf("extract = %q, %v", chosen, err)
	}
	got, err := generate("25b6\t10DE\t157e\tNVIDIA A2\n25b6\t10de\t14a9\tNVIDIA A16\n25b7\t10de\t0001\tNVIDIA A9\n20b0\t\t\tNVIDIA A100\n", "15b3:1015\tConnectX-4 Lx\tbecause\n", chosen+"15b3  Mellanox\n", rules)
	_, got, _ = strings.Cut(got, "#\n10de")
	want := "  NVIDIA Corporation\n\t15f8  NVIDIA Tesla P100 PCIe 16GB\tp\n\t20b0  NVIDIA A100\tn\n\t25b6  unknown\tn\n" +
		"\t\t10de 14a9  NVIDIA A16\tn\n\t\t10de 157e  NVIDIA A2\tn\n\t25b7  NVIDIA A9\tn\n\t\t10de 0001  NVIDIA A9\tn\n15b3  Mellanox\n\t1015  ConnectX-4 Lx\to\n"
	if err != nil || got != want {
		t.Errorf("generate = %q, %v; want %q", got, err, want)
	}
	for name, in := range map[string][3]string{
		"half a subsystem":        {"25b6\t10de\t\tNVIDIA A2\n", "", ""},
		"no name":                 {"25b6\t\t\t\n", "", ""},
		"twice":                   {"25b6\t\t\tA\n", "10de:25b6\tB\tbecause\n", ""},
		"no reason":               {"", "15b3:1015\tConnectX\n", ""},
		"a line that is not ours": {"", "", database},
	} {
		if got, err := generate(in[0], in[1], in[2], rules); err == nil {
			t.Errorf("%s: generate = %q, want an error", name, got)
		}
	}
	if _, err := extract("10de  NVIDIA Corporation\n", rules); err == nil {
		t.Error("a database without a version was taken")
	}
	for _, bad := range []string{"10de\t(\twhole\t\n", "10de\tx\thalf\t\n", "10de\tx\n", "1\tx\twhole\t\n"} {
		if _, err := parseRules(bad); err == nil {
			t.Errorf("the rule %q was taken", bad)
		}
	}
}
