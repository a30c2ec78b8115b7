package secret

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

const testKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIECanary0123\n-----END EC PRIVATE KEY-----\n"

// TestFindEvident finds the secrets of texts, which are between « and », and nothing else.
func TestFindEvident(t *testing.T) {
	for _, marked := range []string{
		"«" + strings.TrimSuffix(testKey, "\n") + "»\n",
		`content = "«` + strings.ReplaceAll(strings.TrimSuffix(testKey, "\n"), "\n", `\n`) + `»\n"`,
		"key: «" + base64.StdEncoding.EncodeToString([]byte(testKey)) + "»",
		"key: «" + hex.EncodeToString([]byte(testKey)) + "»",
		"x «-----BEGIN PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEvQIBADAN\n-----END PRIVATE KEY-----»",
		"# «-----BEGIN PRIVATE KEY-----\n# MC4CAQAwBQYDK2VwBCIECANARY\n# CANA\n# -----END PRIVATE KEY-----»\n",
		"[\n  \"«-----BEGIN PRIVATE KEY-----\",\n  \"MC4CAQAwBQYDK2VwBCIECANARY\",\n  \"CA==\",\n" +
			"  \"-----END PRIVATE KEY-----»\",\n]",
		"key: «LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUV2\n  CANARYFBQVNDQktjd2dnU2pBZ0VB»\n  other: x",
		`token: "«tokenx.0123456789zyxwvu»"`,
		"«eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl»",
		"Authorization: Bearer «canary»",
		"authorization: basic «dTpw»\nx: y",
		`Authorization = ["Bearer «canary-x»"]`,
		"# Authorization: kubelet\n",
		"# authorization: token review\n",
		"Authorization: token «ghp_0123»",
		"see http://user:password@proxy and https://keys.example/get?key=stable&key=0xABCDEF12",
		"https://x.example/?api_key=«canary»",
		`"Authorization": ["«canary»"]`,
		"  Authorization:\n  - Bearer «canary»\n",
		"--manifest-url-header=«Authorization:OLD»",
		`flags = { "manifest-url-header" = "«Authorization:NEW»" }`,
		`"storage-driver-password" = "«hunter2»"`,
		`KUBELET_EXTRA_ARGS="--v=2 --storage_driver_password=«hunter» --v=3"`,
		`["--storage-driver-password", "«hunter2»"]`,
		`ARGS=\"--manifest-url-header=\"«X-Auth: canary»\"\"`,
		"curl -H 'Bearer «abcdefgh0»'",
		"curl -H 'Basic «dXNlcjpw»'",
		`proxy = "http://u:«pw»@proxy:3128/x"`,
		`proxy = "http://u:«p$W*d%21»@proxy:3128/x"`,
		`proxy = "http://$USER:«pw»@proxy:3128/x"`,
		`discovery_file = "//u:«pw»@h/x"`,
		`"https://h/x?a=b&token=«canary»&c=d"`,
		`"https://h/x?sig=«%2Bcanary%3D»&c=d"`,
		`"https://h/x?X-Amz-Signature=«canary»"`,
		`a = "«-----BEGIN PRIVATE KEY-----\n# MC4CAQAwBQYDK2VwBCIECANARY\n# -----END PRIVATE KEY-----»"`,
		"curl -H 'Bearer «abc*def»'",
		"Authorization: Bearer «abc*def»",
		"HTTP 403: Authorization: «canary012» (tried 5 times)",
		"Authorization: Bearer «canary.012» is refused",
		`"https://h/x?a.token=«value»"`,
		`"https://h/x?a.api_key=«value»&b=c"`,
		`"https://h/x?a=b\u0026token=«value»"`,
		`https://h/x?a=b&amp;token=«value»&amp;c=d`,
		"+  # «-----BEGIN PRIVATE KEY-----\n+  # MC4CAQAwBQYDK2VwBCIECANARY\n+  # -----END PRIVATE KEY-----»\n",
		"staticPodURLHeader: {X-A: [«canary»]}",
		`text = "x\n«tokenx.0123456789zyxwvu»"`,
		`token = "«tokenx.0123456789zyxwvu»"`,
		"--token «tokenx.0123456789zyxwvu»",
		"# «tokenx.0123456789zyxwvu».",
		`local/u = "«tokenx.0123456789zyxwvu»"`,
		"unknown flag: --«tokenx.0123456789zyxwvu», a-tokenx.0123456789zyxwvu",

		// Placeholders and ordinary names.
		"Authorization: Basic __TOKEN__\n",
		"Authorization: Bearer YOUR_API_KEY\n",
		"Authorization: Bearer *****\n",
		"Authorization: @TOKEN@\n",
		"http://u:PASSWORD@proxy and http://u:xxxx@proxy",
		`"https://h/x?token=__TOKEN__"`,
		`"https://h/x?a.key=value"`,
		`"https://h/list?page_token=abcdef12&next-token=x&continuationToken=y"`,
		"Bearer and/or Basic authentication, Bearer RFC 6750",
		"gpu001.berlindatacenter",
		`servers = ["https://abcdef.0123456789abcdee:6443"]`,
		`name = "abcdef.0123456789abcdee"`,
		"hostname: abcdef.0123456789abcdee",
		"--hostname-override=abcdef.0123456789abcdee",
		`labels = { "example.com/rack" = "abcdef.0123456789abcdee" }`,
		"/etc/site.d/abcdef.0123456789abcdee",
		"user@abcdef.0123456789abcdee",
		"abcdef.0123456789abcdee:10250",
		"-----BEGIN CERTIFICATE-----\nMIIBCgKCAQEA\n-----END CERTIFICATE-----\n",
		"-----BEGIN PUBLIC KEY-----\nMIIBCgKCAQEA\n-----END PUBLIC KEY-----\n",
		"a file that begins with -----BEGIN PRIVATE KEY----- is one",
		"-----BEGIN PRIVATE KEY-----\n${credential(\"key\")}\n-----END PRIVATE KEY-----\n",
		"if grep -q -- '-----BEGIN PRIVATE KEY-----' /etc/kubernetes/pki/ca.key\nthen",
		"# -----BEGIN PRIVATE KEY-----\n# what the credential has\n# -----END PRIVATE KEY-----\n",
		"# Basic IPv4/IPv6 addresses, and Basic x86_64-v3",
		"http://u:${var.password}@host, http://u:***@host, https://h/x?token=%s",
		"kubeadm join --token " + SampleToken,
		"server.productioneurope",
		"authorization:\n  mode: Webhook\n",
		`authorization = { mode = "Webhook" }`,
		`{"authorization":{"mode":"Webhook","webhook":{"cacheAuthorizedTTL":"5m0s"}}}`,
		"--authorization-mode=Webhook",
		"Authorization: Webhook\n",
		"Authorization: the kubelet asks the API server\n",
		`Authorization = ["Bearer ${credential("x")}"]`,
		`"manifest-url-header" = var.header`,
		`"manifest-url-header" = null`,
		"the flags --manifest-url-header and --storage-driver-password are secret",
		"--storage-driver-password=root",
		"Authorization: (sensitive)",
		"https://user@host:443/x?key=${var.key}",
		"https://<user>:<password>@host, https://$USER:$PW@host",
		`format("http://%s:%s@proxy, //u:%[2]s@h", var.user, credential("x"))`,
		"http://u:«%73ecret»@h",
		"docker://registry/a:b@sha256:0123, docker://a:3.19@sha256:0123, //u:«pw»@sha256",
		"ssh://git@host:22/x",
		"image: registry/a:b@sha256:0123",
		"// a comment: user@host",
	} {
		text := strings.NewReplacer("«", "", "»", "").Replace(marked)
		got := text
		for _, e := range slices.Backward(FindEvident(text)) {
			got = got[:e.Start] + "«" + got[e.Start:e.End] + "»" + got[e.End:]
		}
		if got != marked {
			t.Errorf("got %q\nwant %q", got, marked)
		}
	}
}

// BenchmarkFindEvident measures a text that is as long as a large site, without a secret.
func BenchmarkFindEvident(b *testing.B) {
	text := strings.Repeat("  labels = { \"example.com/zone\" = local.zone, url = \"https://a.example.com/x\" }\n", 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if found := FindEvident(text); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
