package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/prelet/prelet/internal/hardware"
	"github.com/prelet/prelet/internal/hardware/hwtree"
)

// TestServe speaks with it as bench/run does.
func TestServe(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(config, []byte("kind: KubeletConfiguration\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, questions := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(config, 0, in, out) }()

	var at address
	var count asked
	decoder := json.NewDecoder(answers)
	if err := decoder.Decode(&at); err != nil || at.URL == "" || at.CAHash == "" || at.Token == "" || at.Kubeconfig == "" {
		t.Fatalf("%+v, %v", at, err)
	}
	if _, err := io.WriteString(questions, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(&count); err != nil || count != (asked{}) {
		t.Errorf("%+v, %v; nobody has asked anything", count, err)
	}
	_ = questions.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWriteEvents: the summaries say what the files say, so that both ways of reading a machine find the same.
func TestWriteEvents(t *testing.T) {
	dir := t.TempDir()
	if err := hwtree.BuildFile("../../testdata/hardware/spec/dgx-h100.json", dir); err != nil {
		t.Fatal(err)
	}
	before, err := hardware.Detect(context.Background(), hardware.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeEvents(dir); err != nil {
		t.Fatal(err)
	}
	events, err := filepath.Glob(filepath.Join(dir, "sys/bus/pci/devices/*/uevent"))
	if err != nil || len(events) < 20 {
		t.Fatalf("%d files uevent, %v", len(events), err)
	}
	for _, event := range events {
		for _, name := range []string{"class", "vendor", "subsystem_vendor"} { // so that only uevent is left to read
			if err := os.Remove(filepath.Join(filepath.Dir(event), name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	after, err := hardware.Detect(context.Background(), hardware.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("%d functions; with uevent the machine is another one", len(after.PCI))
	}
}
