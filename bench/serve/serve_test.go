package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestServe speaks with it as bench/lib.sh does.
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
	if err := json.NewDecoder(answers).Decode(&at); err != nil || at.URL == "" || at.CAHash == "" || at.Token == "" ||
		at.Kubeconfig == "" {
		t.Fatalf("got %+v, %v; want an address and no error", at, err)
	}
	_ = questions.Close()
	if err := <-ended; err != nil {
		t.Errorf("after the end of its input: got %v, want no error", err)
	}
}
