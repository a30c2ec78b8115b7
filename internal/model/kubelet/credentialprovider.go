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

// ReadCredentialProviders returns the names of the plugins in a CredentialProviderConfig of any version. It fails for a
// text with which the kubelet does not start. An error has no value of the text, which may have secrets.
// Source: pkg/credentialprovider/plugin/config.go, decode and validateCredentialProviderConfig.
func ReadCredentialProviders(text string) (names []string, err error) {
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
	var providers []struct {
		Name, APIVersion     string
		MatchImages          []string
		DefaultCacheDuration any
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
		names = append(names, p.Name)
	}

	return names, nil
}
