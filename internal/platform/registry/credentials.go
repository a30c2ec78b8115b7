package registry

import (
	"context"

	"oras.land/oras-go/v2/registry/remote/credentials"
)

// CredentialsOf returns the Client.Credential of a docker config.json. hide gets each password before it is used.
func CredentialsOf(store credentials.Store, hide func(secret []byte)) Credential {
	get := credentials.Credential(store)

	return func(ctx context.Context, host, _ string) (user, password string, err error) {
		found, err := get(ctx, host)
		hide([]byte(found.Password))
		hide([]byte(found.RefreshToken))
		if found.RefreshToken != "" {
			return IdentityToken, found.RefreshToken, err
		}

		return found.Username, found.Password, err
	}
}
