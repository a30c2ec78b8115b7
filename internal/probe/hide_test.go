package probe

import "testing"

// What is a secret by its form is hidden wherever it is; other text stays as it is, and JSON stays JSON.
func TestHideByForm(t *testing.T) {
	const jwtText = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhYmNkZWZnIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"

	for text, want := range map[string]string{
		"token " + jwtText + " was refused": "token (sensitive) was refused",
		"proxy http://me:pw@10.0.0.1:3128":  "proxy http://(sensitive)@10.0.0.1:3128",
		"authorization: Basic YTpi\nnext":   "authorization: Basic (sensitive)\nnext",

		`{"v":"--x=Authorization:abc","w":1}`: `{"v":"--x=Authorization:(sensitive)","w":1}`,

		"a\n-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\nb": "a\n(sensitive)\nb",

		`"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"`: `"(sensitive)\n"`,
	} {
		if got := HideByForm(text); got != want {
			t.Errorf("%q: got %q; want %q", text, got, want)
		}
	}

	for _, text := range []string{
		"authorization:\n  mode: Webhook\n",
		"authorization-mode=Webhook https://10.0.0.1:6443/api user@host 12:30:01",
		`{"authorization":{"mode":"Webhook"},"image":"registry.k8s.io/pause:3.10@x"}`,
		`["-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"]`,
		"unix:///run/containerd/containerd.sock",
	} {
		if got := HideByForm(text); got != text {
			t.Errorf("%q: got %q; want no change", text, got)
		}
	}
}
