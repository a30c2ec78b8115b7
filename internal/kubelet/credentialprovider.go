package kubelet

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// CredentialProviderAPI is the version of requests that current plugins take.
const CredentialProviderAPI = "credentialprovider.kubelet.k8s.io/v1"

// CredentialProviderAPIs returns the versions of requests that a kubelet can send. Source:
// pkg/credentialprovider/plugin/plugin.go, apiVersions.
func CredentialProviderAPIs() []string {
	const group = "credentialprovider.kubelet.k8s.io/"

	return []string{CredentialProviderAPI, group + "v1beta1", group + "v1alpha1"}
}

// CredentialProvider is an entry of a CredentialProviderConfig. The fields are those of k8s.io/kubelet/config/v1, whose
// package reaches net/http.
type CredentialProvider struct {
	Name                 string            `json:"name"`
	MatchImages          []string          `json:"matchImages"`
	DefaultCacheDuration string            `json:"defaultCacheDuration"`
	APIVersion           string            `json:"apiVersion"`
	Args                 []string          `json:"args,omitempty"`
	Env                  []EnvironmentPair `json:"env,omitempty"`
	TokenAttributes      *TokenAttributes  `json:"tokenAttributes,omitempty"`
}

// EnvironmentPair is a variable of a plugin's environment.
type EnvironmentPair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// TokenAttributes describes the token of a service account that a plugin gets.
type TokenAttributes struct {
	Audience              string   `json:"serviceAccountTokenAudience"`
	CacheType             string   `json:"cacheType"`
	RequireServiceAccount bool     `json:"requireServiceAccount"`
	RequiredAnnotations   []string `json:"requiredServiceAccountAnnotationKeys,omitempty"`
	OptionalAnnotations   []string `json:"optionalServiceAccountAnnotationKeys,omitempty"`
}

// FormatCredentialProviders returns a CredentialProviderConfig as YAML. Kubelets from 1.26 on read its version.
func FormatCredentialProviders(providers []CredentialProvider) (string, error) {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1",
		"kind":       "CredentialProviderConfig",
		"providers":  providers,
	})

	return string(text), err
}

// ListCredentialProviders returns the names of the plugins in a CredentialProviderConfig of any version. It returns
// none for a text that is not one: the kubelet reports why.
func ListCredentialProviders(text string) (names []string) {
	doc, _, err := parseDocument(text)
	if err != nil || doc["kind"] != "CredentialProviderConfig" {
		return nil
	}

	asJSON, err := json.Marshal(doc["providers"])
	if err != nil {
		return nil
	}
	var providers []struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(asJSON, &providers) != nil {
		return nil
	}
	for _, p := range providers {
		names = append(names, p.Name)
	}

	return names
}
