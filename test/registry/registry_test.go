package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"

	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

const password = "canary-password"

// serve starts the registry with a password, and returns its host and its CA.
func serve(t *testing.T, folder string) (host, ca string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(folder, "htpasswd")
	write(t, users, "ci:"+string(hash)+"\n")

	return serveWith(t, folder, configuration.Auth{"htpasswd": {"realm": "r", "path": users}})
}

// serveWith starts the registry of the distribution project with TLS, and returns its host and its CA.
func serveWith(t *testing.T, folder string, auth configuration.Auth) (host, ca string) {
	t.Helper()
	config := &configuration.Configuration{Version: "0.1"}
	config.Log.Level = "panic"
	config.Log.AccessLog.Disabled = true
	logrus.SetLevel(logrus.PanicLevel) // of what handlers.NewApp does not configure
	config.Storage = configuration.Storage{"inmemory": {}}
	config.Auth = auth
	config.HTTP.Secret = "s"
	s := httptest.NewUnstartedServer(handlers.NewApp(context.Background(), config))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)

	ca = filepath.Join(folder, "ca.pem")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))

	return strings.TrimPrefix(s.URL, "https://"), ca
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// prelet runs the program in a folder, with the logins of a docker config.json there, and returns what it printed.
func prelet(t *testing.T, folder string, status int, args ...string) (stdout, stderr string) {
	t.Helper()
	program, err := filepath.Abs("../../bin/prelet")
	if err != nil {
		t.Fatal(err)
	}
	var out, notes bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = folder
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "SSL_CERT_FILE=" + filepath.Join(folder, "ca.pem"),
		"CREDENTIALS_DIRECTORY=" + filepath.Join(folder, "credentials"), // of a node's unit
	}
	cmd.Stdout, cmd.Stderr = &out, &notes
	_ = cmd.Run() // its status is checked
	if cmd.ProcessState == nil {
		t.Fatal("there is no bin/prelet: make build")
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("prelet %s: got the status %d, want %d:\n%s%s", strings.Join(args, " "), got, status, &out, &notes)
	}
	if strings.Contains(out.String()+notes.String(), "canary") {
		t.Errorf("prelet %s: got output with a password:\n%s%s", strings.Join(args, " "), &out, &notes)
	}

	return out.String(), notes.String()
}

// login writes a docker config.json, for a person and as the credential of a node.
func login(t *testing.T, folder, host, password string) {
	t.Helper()
	loginAs(t, folder, host, `{"username":"ci","password":"`+password+`"}`)
}

func loginAs(t *testing.T, folder, host, auth string) {
	t.Helper()
	for _, name := range []string{".docker/config.json", "credentials/prelet.registry"} {
		write(t, filepath.Join(folder, name), `{"auths":{"`+host+`":`+auth+`}}`)
	}
}

// TestPushPull pushes two versions of a site, and pulls them by tag and by digest.
func TestPushPull(t *testing.T) {
	folder := t.TempDir()
	host, ca := serve(t, folder)
	login(t, folder, host, password)
	ref := "oci://" + host + "/sites/gpu"
	const first = "stage \"write\" \"kubelet\" {\n}\n"
	write(t, filepath.Join(folder, "site/a.hcl"), first)
	one, _ := prelet(t, folder, 0, "push", "site", ref+":stable", "--ca-file", ca)
	again, _ := prelet(t, folder, 0, "push", "site", ref+":same")
	write(t, filepath.Join(folder, "site/b.hcl"), "locals {\n  b = 2\n}\n")
	two, _ := prelet(t, folder, 0, "push", "site", ref+":stable")
	if one != again || one == two || !strings.HasPrefix(one, ref+"@sha256:") {
		t.Errorf("got the references %q, %q and %q; want two equal ones with a digest, and another one", one, again, two)
	}

	for from, want := range map[string][]string{
		ref + ":stable":          {"a.hcl", "b.hcl"},
		strings.TrimSpace(one):   {"a.hcl"},
		ref + ":same":            {"a.hcl"},
		host + "/sites/gpu:same": {"a.hcl"},
	} {
		dir, err := os.MkdirTemp(folder, "pulled")
		if err != nil {
			t.Fatal(err)
		}
		out, _ := prelet(t, folder, 0, "pull", from, dir)
		entries, err := os.ReadDir(dir)
		text, _ := os.ReadFile(filepath.Join(dir, "a.hcl"))
		if err != nil || len(entries) != len(want) || string(text) != first {
			t.Errorf("pull %s: got %v, %v with %q in a.hcl, want %v with %q:\n%s", from, entries, err, text, want, first, out)
		}
	}

	// Back to the first version, under the tag that nodes follow.
	dir := filepath.Join(folder, "back")
	prelet(t, folder, 0, "pull", strings.TrimSpace(one), dir)
	back, _ := prelet(t, folder, 0, "push", dir, ref+":stable")
	if back != one {
		t.Errorf("push of the first version again: got %s, want %s", back, one)
	}
	_, notes := prelet(t, folder, 0, "site", ref+":stable")
	if want := strings.TrimSpace(one); !strings.Contains(notes, want) {
		t.Errorf("site: got %q, want the reference %s", notes, want)
	}
}

// TestPushOfAnyRepository pushes a signed list without a repository, which nodes refuse from a registry.
func TestPushOfAnyRepository(t *testing.T) {
	folder := t.TempDir()
	host, _ := serve(t, folder)
	login(t, folder, host, password)
	write(t, filepath.Join(folder, "site/a.hcl"), "locals {}\n")
	sum := sha256.Sum256([]byte("locals {}\n"))
	write(t, filepath.Join(folder, "site/site.sha256.sig"), "x\n")
	for repository, isWarned := range map[string]bool{"": true, "# repository: " + host + "/sites/gpu\n": false} {
		write(t, filepath.Join(folder, "site/site.sha256"),
			fmt.Sprintf("# name: gpu\n# counter: 1\n%s%x  a.hcl\n", repository, sum))
		_, notes := prelet(t, folder, 0, "push", "site", host+"/sites/gpu:stable")
		if strings.Contains(notes, "--repository "+host+"/sites/gpu") != isWarned {
			t.Errorf("push of a list with %q: got %q, want a warning: %t", repository, notes, isWarned)
		}
	}
}

// TestDenied pulls with a wrong password, without one, and what does not exist.
func TestDenied(t *testing.T) {
	folder := t.TempDir()
	host, _ := serve(t, folder)
	ref := host + "/sites/gpu:stable"
	write(t, filepath.Join(folder, "site/a.hcl"), "locals {\n  a = 1\n}\n")

	for _, row := range []struct {
		name, password string
		status         int
		text           string
	}{
		{"wrong", "canary-wrong", 22, "HTTP 401"},
		{"none", "", 22, "none is known"},
		{"right", password, 20, "does not exist"},
	} {
		login(t, folder, host, row.password)
		_, notes := prelet(t, folder, row.status, "pull", ref, "new")
		if _, err := os.Stat(filepath.Join(folder, "new")); err == nil || !strings.Contains(notes, row.text) {
			t.Errorf("%s password: got %q and a folder: %t, want %q and no folder", row.name, notes, err == nil, row.text)
		}
		if row.status != 20 {
			prelet(t, folder, row.status, "push", "site", ref)
		}
	}
}
