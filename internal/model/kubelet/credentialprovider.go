package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// IsCredentialProviderFile reports whether the kubelet reads a file of a folder of image credential providers.
func IsCredentialProviderFile(name string) bool {
	return slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name))
}

// CredentialProvider is a plugin of a CredentialProviderConfig.
type CredentialProvider struct {
	Name                 string // of its program
	APIVersion           string // of its requests and responses
	MatchImages          []string
	DefaultCacheDuration any
	Args                 []string
	Env                  []struct{ Name, Value string }
	TokenAttributes      *struct{ RequireServiceAccount *bool }
}

// NeedsServiceAccount reports whether the plugin answers for pods with a service account only.
func (p CredentialProvider) NeedsServiceAccount() bool {
	t := p.TokenAttributes

	return t != nil && (t.RequireServiceAccount == nil || *t.RequireServiceAccount)
}

// ReadCredentialProviders returns the plugins in a CredentialProviderConfig of any version. It fails for a text with
// which the kubelet does not start. An error has no value of the text, which may have secrets.
// Source: pkg/credentialprovider/plugin/config.go, decode and validateCredentialProviderConfig.
func ReadCredentialProviders(text string) (providers []CredentialProvider, err error) {
	doc, _, err := parseDocument(text)
	if err != nil {
		return nil, errors.New("it is not YAML")
	}
	version, _ := doc["apiVersion"].(string)
	if doc["kind"] != "CredentialProviderConfig" || !strings.HasPrefix(version, "kubelet.config.k8s.io/") {
		return nil, errors.New("it is not a CredentialProviderConfig of kubelet.config.k8s.io")
	}

	asJSON, err := json.Marshal(doc["providers"])
	if err != nil {
		return nil, errors.New("providers is not a list of objects")
	}
	if json.Unmarshal(asJSON, &providers) != nil {
		return nil, errors.New("providers is not a list of objects")
	}
	if len(providers) == 0 {
		return nil, errors.New("providers: Required value: at least 1 item in plugins is required")
	}
	for _, p := range providers {
		missing := ""
		switch {
		case p.APIVersion == "":
			missing = "apiVersion"
		case len(p.MatchImages) == 0:
			missing = "matchImages"
		case p.DefaultCacheDuration == nil:
			missing = "defaultCacheDuration"
		}
		if missing != "" {
			return nil, fmt.Errorf("providers.%s: Required value of %q", missing, p.Name)
		}
	}

	return providers, nil
}
