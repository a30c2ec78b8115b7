package main

import (
	"os"
	"testing"
)

func TestTableIsOfItsSources(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile("../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	want, err := generate(read("source/nvidia.tsv"), read("source/devices.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	if read("table.tsv") != want {
		t.Error("table.tsv is not what its sources give; run go generate ./internal/hardware/names")
	}
}

func TestGenerate(t *testing.T) {
	got, err := generate("25b6\t10DE\t157e\tNVIDIA A2\n20b0\t\t\tNVIDIA A100\n", "15b3:1015\tConnectX-4 Lx\n")
	want := "10de:20b0\tn\tNVIDIA A100\n10de:25b6 10de:157e\tn\tNVIDIA A2\n15b3:1015\to\tConnectX-4 Lx\n"
	if err != nil || got != want {
		t.Errorf("generate = %q, %v; want %q", got, err, want)
	}
	for name, in := range map[string][2]string{
		"half a subsystem": {"25b6\t10de\t\tNVIDIA A2\n", ""},
		"no name":          {"25b6\t\t\t\n", ""},
		"twice":            {"25b6\t\t\tA\n", "10de:25b6\tB\n"},
		"no tab":           {"", "15b3:1015 ConnectX\n"},
	} {
		if got, err := generate(in[0], in[1]); err == nil {
			t.Errorf("%s: generate = %q, want an error", name, got)
		}
	}
}
