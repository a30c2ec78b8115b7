// Command pciids writes the pci.ids that is embedded in prelet, from the sources that are kept beside it. With -pciids it
// first takes the lines that the rules choose out of a whole pci.ids, so that the sources name one day's database and no more
// of it is kept than is used.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("out", "../pci.ids", "file to write")
	source := flag.String("source", "source", "folder of the sources")
	database := flag.String("pciids", "", "a whole pci.ids, to renew source/pci.ids from")
	flag.Parse()
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			log.Fatal(err)
		}
		return string(data)
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	rules, err := parseRules(read(*source + "/rules.tsv"))
	if err != nil {
		log.Fatal(err)
	}
	if *database != "" {
		extract, err := extract(read(*database), rules)
		if err != nil {
			log.Fatal(err)
		}
		write(*source+"/pci.ids", extract)
	}
	table, err := generate(read(*source+"/nvidia.tsv"), read(*source+"/devices.tsv"), read(*source+"/pci.ids"), rules)
	if err != nil {
		log.Fatal(err)
	}
	write(*out, table)
}
