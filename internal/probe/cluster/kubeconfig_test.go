package cluster

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
)

// witness is a server that asks for a certificate, and remembers what it was shown. It accepts nothing.
type witness struct {
	*hostile
	mu    sync.Mutex
	shown [2]string // Authorization, and the client certificate's hash
}

func newWitness(t *testing.T, ca *testCA) *witness {
	w := &witness{}
	w.hostile = newHostile(t, ca, func(_ *hostile, c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	w.handle = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/readyz" {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown = [2]string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ""}
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			w.shown[1] = hashCert(certs[0])
		}
		writeStatus(rw, 403, "Forbidden", "no")
		return true
	}
	return w
}

func (w *witness) take() [2]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.shown = [2]string{} }()
	return w.shown
}

// desk is a folder with everything that a kubeconfig may name.
type desk struct {
	dir         string
	cert, key   []byte
	cert2, key2 []byte
}

func newDesk(t *testing.T) desk {
	t.Helper()
	s := startDemo(t)
	d := desk{dir: t.TempDir()}
	var err error
	if d.cert, d.key, err = s.IssueNode("one"); err != nil {
		t.Fatal(err)
	}
	if d.cert2, d.key2, err = s.IssueNode("two"); err != nil {
		t.Fatal(err)
	}
	answer := func(status map[string]string) string {
		b, err := json.Marshal(
			map[string]any{"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": status},
		)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, text := range map[string]string{
		"pair.pem": string(d.cert) + string(d.key), "cert.pem": string(d.cert2), "key.pem": string(d.key2), "token": " file-token\n", "empty": "\n", "two-lines": "a\nb",
		"says-token": answer(map[string]string{"token": "plugin-token"}),
		"says-cert":  answer(map[string]string{"clientCertificateData": string(d.cert2), "clientKeyData": string(d.key2)}),
		"says-both":  answer(map[string]string{"token": "plugin-token", "clientCertificateData": string(d.cert), "clientKeyData": string(d.key)}),
		"says-beta":  strings.Replace(answer(map[string]string{"token": "plugin-token"}), "/v1", "/v1beta1", 1),
		"says-key":   answer(map[string]string{"clientKeyData": string(d.key)}),
		"says-none":  answer(nil), "says-yaml": "kind: ExecCredential\napiVersion: " +
			"client.authentication.k8s.io/v1\nstatus:\n  token: plugin-token\n", "says-kind": `{"kind":"Secret","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}`,
		"says-rubbish": "{", "says-mixed": answer(map[string]string{"clientCertificateData": string(d.cert), "clientKeyData": string(d.key2)}),
		// It records its input, prints the response that its argument names, and exits with the status in the variable
		// EXIT.
		"plugin": "#!/bin/sh\ncd \"$(dirname \"$0\")\" || exit 1\nprintf %s \"$KUBERNETES_EXEC_INFO\" > " +
			"told\nprintf x >> runs\ncat \"$1\"\nexit ${EXIT:-0}\n",
	} {
		mode := os.FileMode(0o600)
		if name == "plugin" {
			mode = 0o700
		}
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// readInput returns the plugin's input since the last call, and how often it ran.
func (d desk) readInput(t *testing.T) (info any, runs int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.dir, "told"))
	if err != nil {
		return nil, 0
	}
	if err := json.Unmarshal(b, &info); err != nil {
		t.Fatalf("got KUBERNETES_EXEC_INFO %q and %v, want an ExecCredential", b, err)
	}
	ran, err := os.ReadFile(filepath.Join(d.dir, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"told", "runs"} {
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return info, len(ran)
}

// kubeconfig is a file with one cluster and one user, whose lines are given.
func kubeconfig(w *witness, cluster, user string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: at\npreferences: {}\nfuture: field\ncontexts:\n- " +
		"name: other\n  context: {cluster: x, user: v}\n- name: at\n  context: {cluster: c, user: u}\n" +
		"clusters:\n- name: c\n  cluster:\n    server: " + w.URL + "\n    certificate-authority-data: " + base64.StdEncoding.EncodeToString(
		w.ca.pem(),
	) + "\n" + cluster +
		"users:\n- name: u\n  user:\n" + user
}

func data(name string, b []byte) string {
	return "    " + name + ": " + base64.StdEncoding.EncodeToString(b) + "\n"
}

func execBlock(version, mode, command, says, more string) string {
	out := "    exec:\n      command: " + command + "\n      args: [" + says + "]\n"
	if version != "" {
		out += "      apiVersion: client.authentication.k8s.io/" + version + "\n"
	}
	if mode != "" {
		out += "      interactiveMode: " + mode + "\n"
	}
	return out + more
}

// readWith asks a witness, which refuses everybody.
func readWith(text, dir string) error {
	opts := givingUp(fast(), 1)
	_, err := fetchConfigMap(
		context.Background(),
		ObjectRequest{Kubeconfig: []byte(text), KubeconfigDir: dir, Namespace: "kube-system", Name: "kubelet-config"},
		opts,
	)
	return err
}

// TestIdentity checks what the server receives for each way to identify a user, and the input of a plugin.
func TestIdentity(t *testing.T) {
	d := newDesk(t)
	w := newWitness(t, newTestCA(t, "cluster"))
	one, two := pinOf(t, d.cert), pinOf(t, d.cert2)
	const plugin, nobody = "./plugin", `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`
	wantInput := func(more, config string) string {
		return `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"cluster":{"server":"` + w.URL +
			`",` + more + `"certificate-authority-data":"` + base64.StdEncoding.EncodeToString(
			w.ca.pem(),
		) + `","config":` + config + `},"interactive":false}}`
	}
	info := "    extensions:\n    - name: client.authentication.k8s.io/exec\n      extension: {audience: [a, " +
		"1], deep: {b: null}}\n    - name: other\n      extension: {}\n"
	for name, c := range map[string]struct {
		cluster, user string
		token, cert   string
		input         string
	}{
		"data":               {"", data("client-certificate-data", d.cert) + data("client-key-data", d.key), "", one, ""},
		"files":              {"", "    client-certificate: cert.pem\n    client-key: key.pem\n", "", two, ""},
		"one file, absolute": {"", "    client-certificate: " + d.dir + "/pair.pem\n    client-key: " + d.dir + "/pair.pem\n", "", one, ""},
		"data and a file": {"", data("client-certificate-data", d.cert) + "    client-key: " +
			"pair.pem\n", "", one, ""},
		"token":             {"", "    token: text-token\n", "text-token", "", ""},
		"token file":        {"", "    tokenFile: token\n", "file-token", "", ""},
		"token and file":    {"", "    tokenFile: token\n    token: text-token\n", "file-token", "", ""},
		"token and no file": {"", "    tokenFile: gone\n    token: text-token\n", "text-token", "", ""},
		"certificate and token": {"", "    token: text-token\n    client-certificate: pair.pem\n    " +
			"client-key: pair.pem\n", "text-token", one, ""},
		"nobody":                     {"", "    {}\n", "", "", ""},
		"plugin's token":             {"", execBlock("v1", "Never", plugin, "says-token", ""), "plugin-token", "", nobody},
		"plugin's certificate":       {"", execBlock("v1", "IfAvailable", plugin, "says-cert", ""), "", two, nobody},
		"plugin's both":              {"", execBlock("v1", "Never", plugin, "says-both", ""), "plugin-token", one, nobody},
		"plugin in YAML":             {"", execBlock("v1", "Never", plugin, "says-yaml", ""), "plugin-token", "", nobody},
		"plugin of v1beta1":          {"", execBlock("v1beta1", "", plugin, "says-beta", ""), "plugin-token", "", strings.Replace(nobody, "/v1", "/v1beta1", 1)},
		"plugin with the cluster":    {info, execBlock("v1", "Never", plugin, "says-token", "      provideClusterInfo: true\n"), "plugin-token", "", wantInput("", `{"audience":["a",1],"deep":{"b":null}}`)},
		"plugin with less of it":     {"", execBlock("v1", "Never", plugin, "says-token", "      provideClusterInfo: true\n"), "plugin-token", "", wantInput("", "null")},
		"plugin without the cluster": {info, execBlock("v1", "Never", plugin, "says-token", ""), "plugin-token", "", nobody},
		"plugin with a name":         {"    tls-server-name: localhost\n    disable-compression: true\n", execBlock("v1", "Never", plugin, "says-token", "      provideClusterInfo: true\n"), "plugin-token", "", wantInput(`"tls-server-name":"localhost","disable-compression":true,`, "null")},
		"plugin next to a token":     {"", "    token: text-token\n" + execBlock("v1", "Never", plugin, "says-cert", ""), "text-token", "", ""},
		"plugin next to a cert":      {"", "    client-certificate: pair.pem\n    client-key: pair.pem\n" + execBlock("v1", "Never", plugin, "says-token", ""), "", one, ""},
		"plugin with an environment": {"", execBlock("v1", "Never", "sh", `"-c", "cd '`+d.dir+`' && ./plugin $SAYS"`, "      env: [{name: SAYS, value: says-token}]\n"), "plugin-token", "", nobody},
	} {
		t.Run(name, func(t *testing.T) {
			err := readWith(kubeconfig(w, c.cluster, c.user), d.dir)
			want{code: fault.ClusterDenied, text: []string{"HTTP 403"}}.check(t, err)

			wantShown := [2]string{c.token, c.cert}
			if got := w.take(); got != wantShown {
				t.Errorf("the server was shown %q, want %q", got, wantShown)
			}
			var expected any
			if c.input != "" {
				if err := json.Unmarshal([]byte(c.input), &expected); err != nil {
					t.Fatal(err)
				}
			}
			got, runs := d.readInput(t)
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("the input of the plugin (-want +got):\n%s", diff)
			}
			if wantRuns := min(len(c.input), 1); runs != wantRuns {
				t.Errorf("the plugin ran %d times, want %d", runs, wantRuns)
			}
		})
	}
}

func pinOf(t *testing.T, cert []byte) string {
	t.Helper()
	hashes, err := CAHashes(cert)
	if err != nil {
		t.Fatal(err)
	}
	return hashes[0]
}

// TestKubeconfigRefused is what cannot be used: nothing is shown to the server, and nothing is in the message.
func TestKubeconfigRefused(t *testing.T) {
	d := newDesk(t)
	w := newWitness(t, newTestCA(t, "cluster"))
	if err := syscall.Mkfifo(filepath.Join(d.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := "./plugin"
	block := func(says string) string { return execBlock("v1", "Never", plugin, says, "") }
	for name, c := range map[string]struct{ text, want string }{
		"no YAML":         {"users: [", "cannot be parsed"},
		"another kind":    {strings.Replace(kubeconfig(w, "", "    token: t\n"), "kind: Config", "kind: Secret", 1), "cannot be parsed as a Config of v1"},
		"another context": {strings.Replace(kubeconfig(w, "", "    token: t\n"), "current-context: at", "current-context: gone", 1), "current-context"},
		"another cluster": {strings.Replace(kubeconfig(w, "", "    token: t\n"), "- name: c\n", "- name: d\n", 1), `no cluster "c"`},
		"no key":          {kubeconfig(w, "", data("client-certificate-data", d.cert)), "client-key-data or client-key must be specified"},
		"twice":           {kubeconfig(w, "", data("client-certificate-data", d.cert)+data("client-key-data", d.key)+"    client-certificate: cert.pem\n"), "client-cert-data and client-cert are both specified"},
		"keys twice":      {kubeconfig(w, "", data("client-certificate-data", d.cert)+data("client-key-data", d.key)+"    client-key: pair.pem\n"), "client-key-data and client-key are both specified"},
		"no file": {kubeconfig(w, "", "    client-certificate: gone.pem\n    client-key: "+
			"pair.pem\n"), "gone.pem"},
		"no key file": {kubeconfig(w, "", "    client-certificate: pair.pem\n    client-key: "+
			"gone.pem\n"), "gone.pem"},
		"two pairs": {kubeconfig(w, "", "    client-certificate: cert.pem\n    client-key: "+
			"pair.pem\n"), "do not match"},
		"two pairs as data": {kubeconfig(w, "", data("client-certificate-data", d.cert)+data("client-key-data", d.key2)), "do not match"},
		"no token file":     {kubeconfig(w, "", "    tokenFile: gone\n"), "gone"},
		"empty token file":  {kubeconfig(w, "", "    tokenFile: empty\n"), "empty token file"},
		"token of two lines": {kubeconfig(w, "", "    tokenFile: two-lines\n"), "a character that is not " +
			"allowed in a token"},
		"two lines, and a token": {kubeconfig(w, "", "    token: t\n    tokenFile: two-lines\n"), "a character that is not allowed in a token"},
		"a pipe":                 {kubeconfig(w, "", "    tokenFile: fifo\n"), "names as tokenFile"},
		"auth-provider":          {kubeconfig(w, "", "    auth-provider: {name: gcp}\n"), "auth-provider"},
		"no command": {kubeconfig(w, "", "    exec: {apiVersion: client.authentication.k8s.io/v1, "+
			"interactiveMode: Never}\n"), "command must be specified"},
		"no apiVersion":     {kubeconfig(w, "", execBlock("", "Never", plugin, "says-token", "")), "apiVersion"},
		"v1alpha1":          {kubeconfig(w, "", execBlock("v1alpha1", "Never", plugin, "says-token", "")), "apiVersion"},
		"no mode":           {kubeconfig(w, "", execBlock("v1", "", plugin, "says-token", "")), "interactiveMode"},
		"another mode":      {kubeconfig(w, "", execBlock("v1", "Sometimes", plugin, "says-token", "")), "interactiveMode"},
		"a terminal":        {kubeconfig(w, "", execBlock("v1", "Always", plugin, "says-token", "")), "needs a terminal"},
		"a variable's name": {kubeconfig(w, "", execBlock("v1", "Never", plugin, "says-token", "      env: [{value: x}]\n")), "env variable name must be specified"},
		"no such plugin":    {kubeconfig(w, "", execBlock("v1", "Never", "./gone", "says-token", "")), "cannot be run"},
		"plugin that fails": {kubeconfig(w, "", execBlock("v1", "Never", plugin, "says-token", "      env: [{name: EXIT, value: \"3\"}]\n")), "exit status 3"},
		"rubbish":           {kubeconfig(w, "", block("says-rubbish")), "something other than an ExecCredential"},
		"another answer":    {kubeconfig(w, "", block("says-kind")), "something other than an ExecCredential"},
		"another version": {kubeconfig(w, "", block("says-beta")), "something other than an " +
			"ExecCredential of client.authentication.k8s.io/v1"},
		"no status":           {kubeconfig(w, "", block("says-none")), "returns"},
		"a key alone":         {kubeconfig(w, "", block("says-key")), "and not both"},
		"a pair of two pairs": {kubeconfig(w, "", block("says-mixed")), "do not match"},
	} {
		t.Run(name, func(t *testing.T) {
			err := readWith(c.text, d.dir)
			want{code: fault.ClusterDenied, text: []string{c.want}}.check(t, err)
			for _, secret := range []string{"plugin-token", "file-token", strings.Split(string(d.key), "\n")[1], hex.EncodeToString(d.key)} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("got a secret in the message, want none: %v", err)
				}
			}
			if shown := w.take(); shown != [2]string{} {
				t.Errorf("got the credential %q at the server, want none", shown)
			}
		})
	}
}

// TestRefusedByUs is what client-go would do and a boot should not.
func TestRefusedByUs(t *testing.T) {
	w := newWitness(t, newTestCA(t, "cluster"))
	for want, text := range map[string]string{
		"impersonates another user": kubeconfig(w, "", "    token: t\n    as: admin\n"),
		"user name or password":     kubeconfig(w, "", "    username: admin\n    password: p\n"),
		"no user \"u\"":             strings.Replace(kubeconfig(w, "", "    token: t\n"), "- name: u\n", "- name: v\n", 1),
	} {
		err := readWith(text, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) || w.take() != [2]string{} {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// newTestPlugin is a plugin that speaks v1.
func newTestPlugin(t *testing.T, now func() time.Time, command string, args ...string) *execPlugin {
	t.Helper()
	p, err := newExecPlugin(&rest.Config{ExecProvider: &clientcmdapi.ExecConfig{
		Command:         command,
		Args:            args,
		APIVersion:      "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A plugin gets prelet's own environment and what the kubeconfig adds, and nothing that prelet sets for a library.
func TestPluginEnvironment(t *testing.T) {
	t.Setenv("PCIDB_PATH", "/proc/self/fd/7")
	const script = `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'"${PATH:+inherited}.$ADDED.${PCIDB_PATH-unset}"'"}}'`
	p := newTestPlugin(t, time.Now, "/bin/sh", "-c", script)
	p.config.Env = []clientcmdapi.ExecEnvVar{{Name: "ADDED", Value: "added"}}
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: newTestCA(t, "cluster").pem()}}
	err := p.identify(t.Context(), config)
	if want := "inherited.added.unset"; err != nil || config.BearerToken != want {
		t.Errorf("got %q and %v, want %q", config.BearerToken, err, want)
	}
}

func TestPluginIsRunAgain(t *testing.T) {
	d := newDesk(t)
	now := time.Now()
	p := newTestPlugin(t, func() time.Time { return now }, filepath.Join(d.dir, "plugin"), "says")
	says := func(token string, expires time.Time) {
		t.Helper()
		text := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + token + `","expirationTimestamp":"` + expires.Format(
			time.RFC3339,
		) + `"}}`
		if err := os.WriteFile(filepath.Join(d.dir, "says"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	identify := func(want string, runs int) {
		t.Helper()
		config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: newTestCA(t, "cluster").pem()}}
		err := p.identify(t.Context(), config)
		if _, n := d.readInput(t); err != nil || config.BearerToken != want || n != runs {
			t.Errorf("got token %q after %d runs (%v), want %q after %d", config.BearerToken, n, err, want, runs)
		}
	}
	says("first", now.Add(time.Minute))
	identify("first", 1)
	says("second", now.Add(3*time.Minute))
	identify("first", 0)
	now = now.Add(2 * time.Minute)
	identify("second", 1)
}

// A credential that the server does not accept is asked for again.
func TestPluginIsRunAgainWhenRefused(t *testing.T) {
	d := newDesk(t)
	h := newHostile(t, newTestCA(t, "cluster"))
	text := kubeconfig(&witness{hostile: h}, "", execBlock("v1", "Never", "./plugin", "says-token", ""))
	opts := givingUp(fast(), 3)
	opts.OnRetry = func(Retry) {
		answer := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + testToken + `"}}`
		if err := os.WriteFile(filepath.Join(d.dir, "says-token"), []byte(answer), 0o600); err != nil {
			t.Error(err)
		}
	}
	req := ObjectRequest{
		Kubeconfig:    []byte(text),
		KubeconfigDir: d.dir,
		Namespace:     "kube-system",
		Name:          "kubelet-config",
	}
	if _, err := fetchConfigMap(within(t, 30*time.Second), req, opts); err != nil {
		t.Error(err)
	}
	if _, runs := d.readInput(t); runs != 2 {
		t.Errorf("the plugin ran %d times, want 2", runs)
	}
}

// TestPluginEnds: a plugin that hangs is ended, with all that it started, when the time is over; and so is one that
// never ends to write.
func TestPluginEnds(t *testing.T) {
	held := newHeldPipe(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := newTestPlugin(t, time.Now, "sh", "-c", held.script("sleep 20 & wait")).run(ctx)
	if err == nil || !strings.Contains(err.Error(), "did not respond in time") || time.Since(began) > 2*time.Second {
		t.Errorf("got %v after %s, want the end of the time after 200 ms", err, time.Since(began))
	}

	flood := "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"
	_, err = newTestPlugin(t, time.Now, "sh", "-c", flood).run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than 1 MiB") {
		t.Errorf("got %v, want a bound of 1 MiB", err)
	}
	held.checkReleased(t)
}

// heldPipe is a named pipe that a plugin's script and all that it starts hold open for writing. Its reader sees the end
// once all of them have ended, so that a test need not wait and look.
type heldPipe struct {
	path   string
	reader *os.File
}

func newHeldPipe(t *testing.T) heldPipe {
	t.Helper()
	path := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return heldPipe{path, reader}
}

// script is a script of sh that opens the pipe first, and says so in it.
func (h heldPipe) script(rest string) string {
	return "exec 3>'" + h.path + "'; echo started >&3; " + rest
}

// checkReleased fails where the script did not start, or where something that it started still runs.
func (h heldPipe) checkReleased(t *testing.T) {
	t.Helper()
	if err := h.reader.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(h.reader); err != nil || string(said) != "started\n" {
		t.Errorf("got %q, %v from what the plugin started; want started, and its end", said, err)
	}
}

// TestPluginTimeout: a plugin that hangs is ended at its own bound, and the error names the command and the bound.
func TestPluginTimeout(t *testing.T) {
	p := newTestPlugin(t, time.Now, "sleep", "60")
	if got, want := p.timeout, time.Minute; got != want {
		t.Errorf("got a bound of %s; want %s", got, want)
	}
	p.timeout = 200 * time.Millisecond

	began := time.Now()
	err := p.identify(t.Context(), &rest.Config{})
	if want := "its plugin sleep did not respond within 200ms"; err == nil || err.Error() != want {
		t.Errorf("got error %v; want %q", err, want)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("got the error after %s; want it after about 200ms", took)
	}
}

// TestPluginHasNoStdin: a plugin that reads its stdin is at its end at once, whatever the stdin of prelet is.
func TestPluginHasNoStdin(t *testing.T) {
	in, open, err := os.Pipe() // a stdin that does not end
	if err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	os.Stdin = in
	t.Cleanup(func() {
		os.Stdin = stdin
		in.Close()
		open.Close()
	})
	ctx := within(t, 10*time.Second)

	_, err = newTestPlugin(t, time.Now, "sh", "-c", "cat; exit 4").run(ctx)

	if want := "fails: exit status 4"; err == nil || err.Error() != want {
		t.Errorf("got error %v; want %q", err, want)
	}
}

// TestPluginMisbehaves: a plugin that hangs, or never ends to write, is at fault, and not the server, which is asked
// nothing. The read ends at its deadline.
func TestPluginMisbehaves(t *testing.T) {
	w := newWitness(t, newTestCA(t, "cluster"))
	for script, says := range map[string]string{
		"sleep 30": "did not respond in time",
		"while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done": "writes more than 1 MiB",
		"echo secret-of-the-plugin >&2; exit 3":                                          "fails: exit status 3",
		"cat; echo got to the end of stdin; exit 4":                                      "fails: exit status 4",
	} {
		text := kubeconfig(w, "", execBlock("v1", "Never", "sh", `"-c", "`+script+`"`, ""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		began := time.Now()
		req := ObjectRequest{
			Kubeconfig: []byte(
				text,
			),
			KubeconfigName: "the bootstrap kubeconfig",
			Namespace:      "kube-system",
			Name:           "kubelet-config",
		}
		_, err := fetchConfigMap(ctx, req, Options{BackoffMin: 400 * time.Millisecond})
		cancel()
		e := want{code: fault.ClusterDenied, retry: script != "sleep 30", text: []string{
			"the bootstrap kubeconfig provides no credential: its plugin sh " + says}}.check(t, err)
		if strings.Contains(e.Error(), "secret-of-the-plugin") {
			t.Errorf("got the plugin's output in the message, want none: %v", e)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("%s: ended after %s, want about a second", script, took)
		}
	}
	if shown := w.take(); shown != [2]string{} {
		t.Errorf("%q was shown to the server, want nothing", shown)
	}
}

// TestPluginLeavesNothing has plugins that leave a process behind: it ends with them, and hides no success.
func TestPluginLeavesNothing(t *testing.T) {
	const answer = `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'`
	for name, c := range map[string]struct{ script, want string }{
		"success": {"sleep 20 & " + answer, ""},
		"failure": {"sleep 20 >/dev/null & exit 3", "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := newHeldPipe(t)

			_, err := newTestPlugin(t, time.Now, "sh", "-c", held.script(c.script)).run(t.Context())

			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			held.checkReleased(t)
		})
	}
}
