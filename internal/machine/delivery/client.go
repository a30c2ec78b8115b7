package delivery

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"time"

	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/platform/registry"
	"github.com/prelet/prelet/schema"
)

// newClient returns the client of a node, with the CAs, the proxy and the passwords that it has.
func newClient(e *machine.Env, w machine.Where, d schema.Delivery) (*registry.Client, error) {
	c := &registry.Client{
		Passwords:   "the credential " + secret.RegistryCredential + " of " + machine.SiteUnit,
		Authorities: "ca_file in the delivery block",
	}
	if d.CAFile != "" {
		text, failed := nodefile.Root(w.Root).Text(d.CAFile)
		if failed != nil {
			return nil, failed
		}
		c.Roots = x509.NewCertPool()
		if !c.Roots.AppendCertsFromPEM([]byte(text)) {
			return nil, fault.SiteDelivery.Errorf("%s, the ca_file of the delivery block, has no certificate in PEM",
				d.CAFile)
		}
	}
	if d.Proxy != "" {
		proxy, err := url.Parse(d.Proxy)
		if err != nil {
			return nil, fault.SiteDelivery.Errorf("the proxy_url of the delivery block: %s", err)
		}
		c.Proxy = http.ProxyURL(proxy)
	}

	if d.Provider.Config != "" && w.Root == "" { // the plugins of an image are not started
		c.Credential = providers{e, d.Provider}.credential
	}

	text, err := e.ReadPasswords(w)
	if text == nil || err != nil {
		return c, err
	}
	e.Redactor.Add(text)
	store, err := credentials.NewMemoryStoreFromDockerConfig(text)
	if err != nil {
		return nil, fault.CredentialMissing.Errorf("credential %q is not a docker config.json",
			secret.RegistryCredential)
	}
	c.Credential = firstOf(registry.CredentialsOf(store, e.Redactor.Add), c.Credential)

	return c, nil
}

// firstOf returns the passwords of a docker config.json, and those of plugins for other repositories. next may be
// nil.
func firstOf(first, next registry.Credential) registry.Credential {
	return func(ctx context.Context, host, repository string) (user, password string, err error) {
		user, password, err = first(ctx, host, repository)
		if next == nil || password != "" || err != nil {
			return user, password, err
		}

		return next(ctx, host, repository)
	}
}

// isNotYetValid reports whether a certificate of a registry is valid later than the clock.
func isNotYetValid(err error, now time.Time) bool {
	var invalid x509.CertificateInvalidError

	return errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore)
}

// isTransient reports whether a failure may end by itself: a registry that does not answer.
func isTransient(err error) bool { return fault.CodeOf(err) == fault.Registry }
