package lab

import (
	"crypto/x509"
	"net/http"
	"path/filepath"

	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lab/userfile"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
)

// Registry says how registries are asked.
type Registry struct {
	CAFile      string // trusted in addition to the system's CAs
	Credentials string // a docker config.json; "": the user's own, if there is one
	PlainHTTP   bool   // without TLS, on this machine
}

// Client returns the client of registries. Passwords that it reads are hidden in all output.
func (r Registry) Client(e *machine.Env) (*registry.Client, error) {
	c := &registry.Client{
		Proxy:       http.ProxyFromEnvironment,
		PlainHTTP:   r.PlainHTTP,
		Passwords:   "--credentials FILE, a docker config.json",
		Authorities: "--ca-file FILE of push and pull, or SSL_CERT_FILE=FILE",
	}
	if r.CAFile != "" {
		pem, err := userfile.ReadInput(r.CAFile, userfile.MaxBytes)
		if err != nil {
			return nil, fault.Usage.Errorf("--ca-file %s: %s", r.CAFile, err)
		}
		if c.Roots, err = x509.SystemCertPool(); err != nil {
			c.Roots = x509.NewCertPool()
		}
		if !c.Roots.AppendCertsFromPEM(pem) {
			return nil, fault.Usage.Errorf("--ca-file %s: it has no certificate in PEM", r.CAFile)
		}
	}

	file := r.Credentials
	if file == "" {
		file = findDockerConfig(e)
	}
	if file == "" {
		return c, nil
	}
	_, err := userfile.ReadInput(file, userfile.MaxBytes)
	var store *credentials.DynamicStore
	if err == nil {
		store, err = credentials.NewStore(file, credentials.StoreOptions{})
	}
	if err != nil {
		return nil, fault.Usage.Errorf("--credentials %s: %s", file, err)
	}
	c.Credential = registry.CredentialsOf(store, e.Redactor.Add)

	return c, nil
}

// findDockerConfig returns the user's docker config.json; "" if there is none.
func findDockerConfig(e *machine.Env) string {
	folder := e.Getenv("DOCKER_CONFIG")
	if home := e.Getenv("HOME"); folder == "" && home != "" {
		folder = filepath.Join(home, ".docker")
	}
	file := filepath.Join(folder, "config.json")
	if _, err := nodefile.Lstat(file); folder == "" || err != nil {
		return ""
	}

	return file
}
