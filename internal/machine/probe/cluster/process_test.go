package cluster

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"testing"

	"k8s.io/klog/v2"
)

// deadProxy is the proxy that the environment of all tests names. Nothing listens there.
const deadProxy = "http://127.0.0.1:1"

// logVariable makes a process of this program log through the libraries, and do nothing else.
const logVariable = "PRELET_TEST_LOG"

func TestMain(m *testing.M) {
	if os.Getenv(logVariable) != "" {
		logThroughLibraries()
		return
	}

	// net/http reads these once per process, so a test of its own could come too late.
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if err := os.Setenv(name, deadProxy); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// logThroughLibraries logs as client-go and net/http do.
func logThroughLibraries() {
	New(ClientConfig{}).Close()

	klog.Info("klog's information")
	klog.Warning("klog's warning")
	klog.ErrorS(os.ErrInvalid, "klog's error")
	log.Print("net/http's error")
	klog.Flush()
}

// TestLibrariesAreSilent: what client-go and net/http log, which may quote a server, reaches neither stderr nor stdout.
func TestLibrariesAreSilent(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), logVariable+"=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out

	if err := cmd.Run(); err != nil || out.Len() > 0 {
		t.Errorf("got output %q, error %v; want neither", &out, err)
	}
}
