package kubelet

import "encoding/json"

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
