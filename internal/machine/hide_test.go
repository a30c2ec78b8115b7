package machine

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
)

// What an answer holds is found wherever it is in the document, also where a text needs no escape.
func TestFindSecrets(t *testing.T) {
	secrets := []struct{ text, want string }{
		{"https://user:s3cret-pass@mirror.example.com/x", "s3cret-pass"},
		{"https://mirror.example.com/x?access_token=0123456789abcdef", "0123456789abcdef"},
		{"Authorization: Bearer 0123456789abcdef", "0123456789abcdef"},
		{"authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="},
		{"x\nauthorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="},
		{"--storage-driver-password=Zx81-Zx81", "Zx81-Zx81"},
		{"A=1\nKUBELET_ARGS=\"--manifest-url-header=X-Key:Zx81-Zx81\"\n", "X-Key:Zx81-Zx81"},
		{"staticPodURLHeader:\n  X-Key:\n  - Zx81-Zx81\n", "Zx81-Zx81"},
		{"eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJlMTI", "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJlMTI"},
	}
	env := &Env{Searched: new(sync.Map)}
	places := []func(text string) any{
		func(text string) any { return text },
		func(text string) any { return []any{"a.b", text, "authorization", map[string]any{"x": 1}} },
		func(text string) any { return map[string]any{"authorization": "token", "mode": text, "z": "basic a"} },
		func(text string) any {
			return map[string]any{"a": `back\slash`, "b": map[string]any{"c": []string{text}}}
		},
	}

	for _, s := range secrets {
		for i, place := range places {
			answer, err := json.Marshal(place(s.text))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // searched, and known
				if got := env.findSecrets(answer); !slices.Contains(got, s.want) {
					t.Errorf("place %d: findSecrets(%s): got %q, want %q", i, answer, got, s.want)
				}
			}
		}
	}

	const words = `["kubelet","--manifest-url-header","X-Key:Zx81-Zx81"]`
	if got := env.findSecrets([]byte(words)); !slices.Contains(got, "X-Key:Zx81-Zx81") {
		t.Errorf("findSecrets(%s): got %q, want the header", words, got)
	}
	if got := env.findSecrets([]byte(`{"interfaces":["ens1f0","10.0.0.1"]}`)); got != nil {
		t.Errorf("findSecrets of facts: got %q, want none", got)
	}
}
