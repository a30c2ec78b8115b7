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
	var count asked
	decoder := json.NewDecoder(answers)
	if err := decoder.Decode(&at); err != nil || at.URL == "" || at.CAHash == "" || at.Token == "" ||
		at.Kubeconfig == "" {
		t.Fatalf("%+v, %v", at, err)
	}
	if _, err := io.WriteString(questions, "\n"); err != nil {
		t.Fatal(err)
	}
	if err := decoder.Decode(&count); err != nil || count != (asked{}) {
		t.Errorf("without a request: got %+v, %v; want zero and no error", count, err)
	}
	_ = questions.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
