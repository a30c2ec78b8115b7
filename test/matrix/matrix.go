// Package matrix has the results of suites that run on several systems: a suite writes one when all of it has run, and
// `make matrix` makes the table in docs/develop/testing.md from them.
package matrix

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// SuiteResult is the result of one suite on one system.
type SuiteResult struct {
	Debian       string   `json:"debian"` // the name of the suite of packages
	Architecture string   `json:"architecture"`
	Systemd      string   `json:"systemd,omitempty"`
	Suite        string   `json:"suite,omitempty"` // its folder below test; "" if the system could not be had
	Prelet       string   `json:"prelet,omitempty"`
	Date         string   `json:"date"`
	Passed       int      `json:"passed,omitempty"`
	Skipped      int      `json:"skipped,omitempty"`
	Failed       []string `json:"failed,omitempty"`
	Missing      string   `json:"missing,omitempty"` // why the system could not be had
}

// Run is a suite that runs.
type Run struct {
	lock    sync.Mutex
	tests   map[string]*testing.T
	outside string // what failed, if no noted test did
}

// Watch notes how a test ends. It is called before everything that the test cleans up.
func (r *Run) Watch(t *testing.T) {
	t.Cleanup(func() {
		r.lock.Lock()
		defer r.lock.Unlock()
		if r.tests == nil {
			r.tests = map[string]*testing.T{}
		}
		r.tests[t.Name()] = t
	})
}

// Fail notes that the suite has failed. If no noted test has, the result names this.
func (r *Run) Fail(outside string) { r.outside = outside }

// Count returns how many tests have ended.
func (r *Run) Count() int {
	r.lock.Lock()
	defer r.lock.Unlock()

	return len(r.tests)
}

// Write writes the results into a folder, for the suite in the working folder, on the system below root.
func (r *Run) Write(folder, root string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	sources, err := os.ReadFile(root + "/etc/apt/sources.list")
	if err != nil {
		return err
	}
	source := strings.Fields(string(sources)) // deb URL NAME ...
	if len(source) < 3 {
		return fmt.Errorf("%s/etc/apt/sources.list: got %q, want a source", root, sources)
	}
	systemd, err := Systemd(root)
	if err != nil {
		return err
	}
	prelet, err := exec.Command("../../tools/version.sh").Output()
	if err != nil {
		return fmt.Errorf("tools/version.sh: %w", err)
	}
	result := SuiteResult{
		Debian:       source[2],
		Architecture: runtime.GOARCH,
		Systemd:      systemd,
		Suite:        filepath.Base(here),
		Prelet:       strings.TrimSpace(string(prelet)),
		Date:         time.Now().UTC().Format(time.DateOnly),
	}

	r.lock.Lock()
	defer r.lock.Unlock()
	for name, t := range r.tests {
		switch {
		case t.Failed():
			result.Failed = append(result.Failed, name)
		case t.Skipped():
			result.Skipped++
		default:
			result.Passed++
		}
	}
	if r.outside != "" && len(result.Failed) == 0 {
		result.Failed = []string{r.outside}
	}
	slices.Sort(result.Failed)
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(folder, result.Debian+"."+result.Suite+".json"), append(text, '\n'), 0o644)
}

// Systemd returns the version of systemd in the root of a Debian, such as 252.39.
func Systemd(root string) (string, error) {
	packages := "--admindir=" + root + "/var/lib/dpkg"
	version, err := exec.Command("dpkg-query", packages, "-W", "-f", "${Version}", "systemd").Output()
	if err != nil {
		return "", fmt.Errorf("the version of systemd below %s: %w", root, err)
	}
	upstream, _, _ := strings.Cut(string(version), "-")

	return upstream, nil
}
