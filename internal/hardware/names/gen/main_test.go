package main

import "testing"

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
