package probe

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// A private key with a body that a test can look for.
var (
	pemBody = strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7hunter2Secre\n", 3)
	pem     = "-----BEGIN PRIVATE KEY-----\n" + pemBody + "hunter2==\n-----END PRIVATE KEY-----\n"
)

const jwtText = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhYmNkZWZnIn0.c2lnbmF0dXJlLXNpZ25hdHVyZQ"

// What is a secret by its form is hidden, and what is around it stays.
func TestHideByForm(t *testing.T) {
	for text, want := range map[string]string{
		"token " + jwtText + " was refused": "token (sensitive) was refused",
		"proxy http://me:pw@10.0.0.1:3128":  "proxy http://(sensitive)@10.0.0.1:3128",
		"authorization: Basic YTpi\nnext":   "authorization: (sensitive)\nnext",
		"id abcdef.0123456789abcdef.":       "id abcdef.<hidden>.",
		"a\n" + pem + "b":                   "a\n(sensitive)\nb",

		"--manifest-url-header=X:a b,Y:c --max-pods=20":                 "--manifest-url-header=X:(sensitive) --max-pods=20",
		`{"v":"--x=Authorization:abc","w":1}`:                           `{"v":"--x=Authorization:(sensitive)","w":1}`,
		`{"v":"Authorization:","w":1}`:                                  `{"v":"Authorization:","w":1}`,
		"\"args\": {\n \"token\": \"name\"\n}":                          "\"args\": {\n \"token\": \"name\"\n}",
		`{"token":"a\"b","w":1}`:                                        `{"token":"(sensitive)","w":1}`,
		`"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n"`: `"(sensitive)\n"`,
		`["-----BEGIN PRIVATE KEY-----\nx", "y"]`:                       `["(sensitive)", "y"]`,

		"-----BEGIN PRIVATE KEY-----\n" + pemBody + "a next line, ended\n": "(sensitive)\na next line, ended\n",
	} {
		if got := HideByForm(text); got != want {
			t.Errorf("%q: got %q; want %q", text, got, want)
		}
	}
}

// TestHideByFormVanishes: no text contains the secret afterwards: as it is, as a string of JSON, as JSON in JSON, and
// in a log that quotes it. JSON stays JSON.
func TestHideByFormVanishes(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(pem))
	inLines := encoded[:76] + "\n    " + encoded[76:152] + "\n    " + encoded[152:]
	both := base64.StdEncoding.EncodeToString([]byte("-----END CERTIFICATE-----\n" + pem))
	const token = "abcdef.hunter2hunter2xx"

	for text, secret := range map[string]string{
		// keys
		pem: "hunter2",
		"-----BEGIN RSA PRIVATE KEY-----\n" + pemBody + "hunt": "hunter2",
		"-----BEGIN EC PRIVATE KEY-----\nhunter2":              "hunter2",
		pemBody + "hunter2\n-----END PRIVATE KEY-----":         "hunter2",
		"x: y\nhunter2\n-----END RSA PRIVATE KEY-----":         "hunter2",
		"client-key-data: " + encoded + "\n":                   encoded[40:80],
		"key: |\n    " + inLines + "\n":                        encoded[100:120],
		"certificate and key: " + both:                         both[100:140],
		"hex " + hex.EncodeToString([]byte(pem)):               hex.EncodeToString([]byte("hunter2")),
		"Nov 22 n kubelet[1]: -----BEGIN PRIVATE KEY-----\n" +
			"Nov 22 n kubelet[1]: MIIEvQIBADANBgkqhkiG9w0BAhunter2\n": "hunter2",

		// tokens
		"\n" + token + "\n":       "hunter2",
		"token=" + token:          "hunter2",
		"x:\n" + jwtText + "\n":   "c2lnbmF0dXJl",
		"\t" + jwtText:            "c2lnbmF0dXJl",
		"Bearer " + jwtText + ".": "c2lnbmF0dXJl",

		// kubeconfigs and hashes
		"- name: a\n  user:\n    token: hunter2\n":      "hunter2",
		"    token: x\n    password: 'hunter2'\n":       "hunter2",
		`{"users":[{"user":{"token":"hunter2"}}]}`:      "hunter2",
		`{"user":{"password" : "a b hunter2"}}`:         "hunter2",
		"root:$6$saltsalt$hunter2hunter2hunter2:19000:": "hunter2",
		"$2b$12$hunter2hunter2hunter2hunter2":           "hunter2",

		// URLs
		"http://me:p@hunter2@proxy:3128/":  "hunter2",
		"http://me:p'hunter2&x@proxy":      "hunter2",
		"http://me:hunter2$@proxy":         "hunter2",
		"https://hunter2@example.com/x":    "hunter2",
		`{"proxy":"http://me:hunter2@p"}`:  "hunter2",
		"http://me:$hunter2@proxy and x@y": "hunter2",

		// headers
		"Authorization: token hunter2":                                      "hunter2",
		"authorization: bearer hunter2":                                     "hunter2",
		"AUTHORIZATION: Bearer hunter2":                                     "hunter2",
		"Proxy-Authorization: Basic hunter2==":                              "hunter2",
		`{"Authorization": "Bearer hunter2"}`:                               "hunter2",
		`{"Authorization": [` + "\n" + `  "Bearer hunter2"]}`:               "hunter2",
		"map[Accept:[x] Authorization:[Bearer hunter2] User-Agent:[y]]":     "hunter2",
		`http.Header{"Authorization":[]string{"Bearer hunter2"}}`:           "hunter2",
		`"Authorization" = "Bearer hunter2"`:                                "hunter2",
		"curl -H 'Authorization: token hunter2' https://x":                  "hunter2",
		"Authorization:\n  - Bearer hunter2\n":                              "hunter2",
		`Authorization: Digest username="x", realm="y", response="hunter2"`: "hunter2",
		`Authorization: AWS4-HMAC-SHA256 Credential=a, Signature=hunter2`:   "hunter2",
		`Authorization="hunter2"`:                                           "hunter2",
		"--manifest-url-header=Authorization:hunter2":                       "hunter2",
		"--manifest-url-header X-Token:hunter2":                             "hunter2",
		`FLAG: --manifest-url-header="X-Token:Bearer hunter2"`:              "hunter2",
		`["--manifest-url-header","X-Token:hunter2"]`:                       "hunter2",
		`{"name": "manifest-url-header",` + "\n" + `"value": "X:hunter2"}`:  "hunter2",
		`Environment="KUBELET_EXTRA_ARGS=--manifest-url-header=X:hunter2"`:  "hunter2",
	} {
		quoted := marshal(t, text)
		for form, text := range map[string]string{
			"plain":        text,
			"JSON":         `{"a":[` + quoted + `,1]}`,
			"JSON in JSON": marshal(t, `{"a":`+quoted+`}`),
			"a log":        `E1122 10:00:00.000000 1 x.go:1] "Failed" err=` + strconv.Quote(text) + ` pod="x"`,
		} {
			got := HideByForm(text)
			if strings.Contains(got, secret) {
				t.Errorf("%s %q: got %q, want it without %q", form, text, got, secret)
			}
			if json.Valid([]byte(text)) && !json.Valid([]byte(got)) {
				t.Errorf("%s %q: got %q, want JSON", form, text, got)
			}
		}
	}
}

func marshal(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}

	return string(quoted)
}

// TestHideByFormStays: ordinary texts of a bundle do not change.
func TestHideByFormStays(t *testing.T) {
	for _, text := range []string{
		// a kubelet's log
		`I1122 10:00:01.000000 812 flags.go:64] FLAG: --authorization-mode="Webhook"`,
		`I1122 10:00:01.000000 812 flags.go:64] FLAG: --manifest-url-header=""`,
		`I1122 10:00:01.000000 812 server.go:467] "Kubelet version" kubeletVersion="v1.36.3"`,
		`"Cert rotation is enabled, will bootstrap" file="/var/lib/kubelet/pki/kubelet-client-current.pem"`,
		`Authorization:{Mode:Webhook Webhook:{CacheAuthorizedTTL:{Duration:5m0s}}}`,
		`"Unable to authenticate the request" err="[invalid bearer token, token lookup failed]"`,
		`Get "https://10.0.0.1:6443/api/v1/nodes/n?resourceVersion=0": dial tcp 10.0.0.1:6443: connect: refused`,
		`image="registry.k8s.io/pause:3.10@sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097"`,
		`containerd://7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097`,
		"user@host 12:30:01 unix:///run/containerd/containerd.sock",

		// a site
		"authorization:\n  mode: Webhook\n",
		"authorization = {\n  mode = \"Webhook\"\n}\n",
		`when = node.config.authorization == null`,
		`content = "password=${credential("db")}"`,
		"users:\n- name: x\n  user:\n    token: ${credential(\"t\")}\n",
		`"Authorization" = "${credential("header")}"`,
		`"https://${var.user}:${var.password}@proxy"`,
		`token = credential("bootstrap-token")`,
		"# --manifest-url-header may contain a credential",
		"ca_cert_hashes = [\"sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097\"]",
		"certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n"+pemBody)),
		"-----BEGIN CERTIFICATE-----\n" + pemBody + "-----END CERTIFICATE-----\n",

		// a plan and a recording
		`{"authorization":{"mode":"Webhook","webhook":null},"image":"registry.k8s.io/pause:3.10@x"}`,
		`{"authorization":null,"token":true,"flags":["manifest-url-header","max-pods"],"password":["x"]}`,
		"+ --node-labels=topology.kubernetes.io/zone=a,accelerator=nvidia-h100   site.hcl:12",
		"~ /etc/default/kubelet  update  stage.write.kubelet",
		"plan hash sha256:7031c1b283388d2c2e09b57badb803c05ebed362dc88d84b480cc47f72a21097",
		"example.hostname.examplehostnames.com fetch-config.kubeletkubeletku $1$2 $6$short",
	} {
		for form, text := range map[string]string{"plain": text, "JSON": marshal(t, text)} {
			if got := HideByForm(text); got != text {
				t.Errorf("%s %q: got %q; want no change", form, text, got)
			}
		}
	}
}
