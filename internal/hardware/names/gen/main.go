// Command gen makes the embedded table of device names from the sources that are kept beside it.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
)

func main() {
	out := flag.String("out", "table.tsv", "file to write")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: gen -out TABLE NVIDIA.tsv DEVICES.tsv")
	}
	nvidia, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	devices, err := os.ReadFile(flag.Arg(1))
	if err != nil {
		log.Fatal(err)
	}
	table, err := generate(string(nvidia), string(devices))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(*out, []byte(table), 0o644); err != nil {
		log.Fatal(err)
	}
}

// generate joins NVIDIA's rows (device, subvendor, subdevice, name) and ours (vendor:device, name) to sorted lines
// "vendor:device[ subvendor:subdevice]\tsource\tname". A key may stand once.
func generate(nvidia, devices string) (string, error) {
	byKey := map[string]string{}
	add := func(key, source, name string) error {
		if _, twice := byKey[key]; twice {
			return fmt.Errorf("%s stands twice", key)
		}
		byKey[key] = source + "\t" + name
		return nil
	}
	for line := range strings.Lines(nvidia) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 || len(f[0]) != 4 || f[3] == "" || (f[1] == "") != (f[2] == "") {
			return "", fmt.Errorf("NVIDIA's table: %q", line)
		}
		key := "10de:" + f[0]
		if f[1] != "" {
			key += " " + f[1] + ":" + f[2]
		}
		if err := add(key, "n", f[3]); err != nil {
			return "", err
		}
	}
	for line := range strings.Lines(devices) {
		device, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok || len(device) != len("10de:2330") || name == "" {
			return "", fmt.Errorf("our table: %q", line)
		}
		if err := add(device, "o", name); err != nil {
			return "", err
		}
	}
	lines := make([]string, 0, len(byKey))
	for key, rest := range byKey {
		lines = append(lines, strings.ToLower(key)+"\t"+rest+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}
