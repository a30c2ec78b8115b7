package cluster

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/testing/demo"
	"github.com/prelet/prelet/internal/testing/osfile"
)

// witness is a server that asks for a certificate, and remembers what it was shown. It accepts nothing.
type witness struct {
	hostile
	mu    sync.Mutex
	shown [2]string // Authorization, and the client certificate's hash
}

func newWitness(t *testing.T) *witness {
	w := &witness{}
	w.hostile = newHostile(t, nil, func(c *tls.Config) { c.ClientAuth = tls.RequestClientCert })
	w.Intercept = exceptReadyz(func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.shown = [2]string{strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ""}
		if certs := r.TLS.PeerCertificates; len(certs) > 0 {
			w.shown[1] = hashCert(certs[0])
		}
		return answerWith(403)(rw, r, 0)
	})
	return w
}

func (w *witness) take() [2]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.shown = [2]string{} }()
	return w.shown
}

// desk is a folder with everything that a kubeconfig may name, and testdata/kubeconfig.yaml.
type desk struct {
	dir string
	key []byte // of the first pair

	Files    map[string]any
	Accepted []struct {
		Name          string
		Cluster, User map[string]any
		Token, Cert   string
		Input         any
	}
	Refused []struct {
		Name       string
		User, File map[string]any
		Text, Why  string
	}
}

func newDesk(t *testing.T, w *witness) desk {
	t.Helper()
	s := newHostile(t, nil)
	d := desk{dir: t.TempDir()}
	names := []string{"URL", w.URL, "CA64", base64.StdEncoding.EncodeToString(w.CAPEM()), "DIR", d.dir}
	for _, number := range []string{"", "2"} {
		cert, key := s.IssueNode("node" + number)
		hashes, err := CAHashes(cert)
		must(t, err)
		if number == "" {
			d.key = key
		}
		names = append(names, "CERT"+number, string(cert), "KEY"+number, string(key), "PIN"+number, hashes[0],
			"CERT"+number+"64", base64.StdEncoding.EncodeToString(cert),
			"KEY"+number+"64", base64.StdEncoding.EncodeToString(key))
	}
	readData(t, "kubeconfig.yaml", &d, names...)
	for name, content := range d.Files {
		text, isText := content.(string)
		if !isText {
			text = encode(t, content)
		}
		mode := os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		osfile.Write(t, filepath.Join(d.dir, name), text, mode)
	}
	return d
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
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
	ran := osfile.Read(t, filepath.Join(d.dir, "runs"))
	for _, name := range []string{"told", "runs"} {
		must(t, os.Remove(filepath.Join(d.dir, name)))
	}
	return info, len(ran)
}

// object is JSON.
type object = map[string]any

// kubeconfig has one cluster, with some fields, and one user. The fields of file replace those of the whole.
func kubeconfig(t *testing.T, server string, ca []byte, cluster, user, file object) []byte {
	t.Helper()
	c := object{"server": server, "certificate-authority-data": ca}
	maps.Copy(c, cluster)
	whole := object{
		"apiVersion": "v1", "kind": "Config", "current-context": "at", "preferences": object{}, "future": "field",
		"contexts": []object{
			{"name": "other", "context": object{"cluster": "x", "user": "v"}},
			{"name": "at", "context": object{"cluster": "c", "user": "u"}},
		},
		"clusters": []object{{"name": "c", "cluster": c}},
		"users":    []object{{"name": "u", "user": user}},
	}
	maps.Copy(whole, file)
	return []byte(encode(t, whole))
}

func (h hostile) kubeconfig(t *testing.T, cluster, user, file object) []byte {
	t.Helper()
	return kubeconfig(t, h.URL, h.CAPEM(), cluster, user, file)
}

// execUser is a user by a plugin of v1.
func execUser(command string, args ...string) object {
	const version = "client.authentication.k8s.io/v1"
	return object{"exec": object{"command": command, "args": args, "apiVersion": version, "interactiveMode": "Never"}}
}

// withKubeconfig is a request for the object by a kubeconfig alone.
func withKubeconfig(text []byte, dir string) ObjectRequest {
	return ObjectRequest{Kubeconfig: text, KubeconfigDir: dir, Namespace: "kube-system", Name: "kubelet-config"}
}

// TestIdentity checks what the server receives for each way to identify a user, and the input of a plugin.
func TestIdentity(t *testing.T) {
	w := newWitness(t)
	d := newDesk(t, w)
	for _, c := range d.Accepted {
		t.Run(c.Name, func(t *testing.T) {
			err := readObject(t, withKubeconfig(w.kubeconfig(t, c.Cluster, c.User, nil), d.dir), givingUp(fast(), 1))
			want{Code: fault.ClusterDenied, Text: []string{"HTTP 403"}}.check(t, err)

			if got, want := w.take(), [2]string{c.Token, c.Cert}; got != want {
				t.Errorf("the server was shown %q, want %q", got, want)
			}
			got, runs := d.readInput(t)
			if diff := cmp.Diff(c.Input, got); diff != "" {
				t.Errorf("the input of the plugin (-want +got):\n%s", diff)
			}
			if c.Input != nil && runs != 1 || c.Input == nil && runs != 0 {
				t.Errorf("the plugin ran %d times, want once with an input, and never without", runs)
			}
		})
	}
}

// TestKubeconfigRefused is what cannot be used: nothing is shown to the server, and nothing is in the message.
func TestKubeconfigRefused(t *testing.T) {
	w := newWitness(t)
	d := newDesk(t, w)
	must(t, syscall.Mkfifo(filepath.Join(d.dir, "fifo"), 0o600))
	for _, c := range d.Refused {
		t.Run(c.Name, func(t *testing.T) {
			if c.User == nil {
				c.User = object{"token": "t"}
			}
			text := w.kubeconfig(t, nil, c.User, c.File)
			if c.Text != "" {
				text = []byte(c.Text)
			}
			err := readObject(t, withKubeconfig(text, d.dir), givingUp(fast(), 1))
			want{Code: fault.ClusterDenied, Text: []string{c.Why}}.check(t, err)
			secrets := []string{"plugin-token", "file-token", strings.Split(string(d.key), "\n")[1], hex.EncodeToString(d.key)}
			for _, secret := range secrets {
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

// newTestPlugin is a plugin that speaks v1.
func newTestPlugin(t *testing.T, now func() time.Time, command string, args ...string) *execPlugin {
	t.Helper()
	p, err := newExecPlugin(&rest.Config{ExecProvider: &clientcmdapi.ExecConfig{
		Command:         command,
		Args:            args,
		APIVersion:      "client.authentication.k8s.io/v1",
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}, now)
	must(t, err)
	return p
}

// A plugin gets prelet's own environment and what the kubeconfig adds, and nothing that prelet sets for a library.
func TestPluginEnvironment(t *testing.T) {
	t.Setenv("PCIDB_PATH", "/proc/self/fd/7")
	const script = `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"'"${PATH:+inherited}.$ADDED.${PCIDB_PATH-unset}"'"}}'`
	p := newTestPlugin(t, time.Now, "/bin/sh", "-c", script)
	p.config.Env = []clientcmdapi.ExecEnvVar{{Name: "ADDED", Value: "added"}}
	config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: demo.NewAuthority("cluster").CAPEM()}}
	err := p.identify(t.Context(), config)
	if want := "inherited.added.unset"; err != nil || config.BearerToken != want {
		t.Errorf("got %q and %v, want %q", config.BearerToken, err, want)
	}
}

func TestPluginIsRunAgain(t *testing.T) {
	d := newDesk(t, newWitness(t))
	now := time.Now()
	p := newTestPlugin(t, func() time.Time { return now }, filepath.Join(d.dir, "plugin"), "says")
	says := func(token string, expires time.Time) {
		t.Helper()
		text := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + token + `","expirationTimestamp":"` + expires.Format(
			time.RFC3339,
		) + `"}}`
		osfile.Write(t, filepath.Join(d.dir, "says"), text, 0o600)
	}
	identify := func(want string, runs int) {
		t.Helper()
		config := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: demo.NewAuthority("cluster").CAPEM()}}
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
	h := newHostile(t, nil)
	d := newDesk(t, &witness{hostile: h})
	opts := givingUp(fast(), 3)
	opts.OnRetry = func(Retry) {
		answer := `{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"` + demo.Token + `"}}`
		if err := os.WriteFile(filepath.Join(d.dir, "says-token"), []byte(answer), 0o600); err != nil {
			t.Error(err)
		}
	}
	req := withKubeconfig(h.kubeconfig(t, nil, execUser("./plugin", "says-token"), nil), d.dir)
	if err := readObject(t, req, opts); err != nil {
		t.Error(err)
	}
	if _, runs := d.readInput(t); runs != 2 {
		t.Errorf("the plugin ran %d times, want 2", runs)
	}
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
	must(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
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
	must(t, h.reader.SetReadDeadline(time.Now().Add(time.Minute)))
	if said, err := io.ReadAll(h.reader); err != nil || string(said) != "started\n" {
		t.Errorf("got %q, %v from what the plugin started; want started, and its end", said, err)
	}
}

// TestPluginTimeout: a plugin that hangs is ended at its own bound, and the error names the command and the bound.
func TestPluginTimeout(t *testing.T) {
	p := newTestPlugin(t, time.Now, "sleep", "300")
	if got, want := p.timeout, time.Minute; got != want {
		t.Errorf("got a bound of %s; want %s", got, want)
	}
	p.timeout = 200 * time.Millisecond

	err := p.identify(t.Context(), &rest.Config{})
	if want := "its plugin sleep did not respond within 200ms"; err == nil || err.Error() != want {
		t.Errorf("got error %v; want %q", err, want)
	}
}

// TestPluginHasNoStdin: a plugin that reads its stdin is at its end at once, whatever the stdin of prelet is.
func TestPluginHasNoStdin(t *testing.T) {
	in, open, err := os.Pipe() // a stdin that does not end
	must(t, err)
	stdin := os.Stdin
	os.Stdin = in
	t.Cleanup(func() {
		os.Stdin = stdin
		in.Close()
		open.Close()
	})
	ctx := within(t, 50*time.Second)

	_, err = newTestPlugin(t, time.Now, "sh", "-c", "cat; exit 4").run(ctx)

	if want := "fails: exit status 4"; err == nil || err.Error() != want {
		t.Errorf("got error %v; want %q", err, want)
	}
}

// TestPluginMisbehaves: a plugin that hangs, or never ends to write, is at fault, and not the server, which is asked
// nothing. The read ends at its deadline.
func TestPluginMisbehaves(t *testing.T) {
	w := newWitness(t)
	for script, says := range map[string]string{
		"sleep 300": "did not respond in time",
		"while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done": "writes more than 1 MiB",
		"echo secret-of-the-plugin >&2; exit 3":                                          "fails: exit status 3",
	} {
		// The others end at the second wait, so that a loaded machine has the time for what they write.
		ctx, opts := within(t, time.Minute), givingUp(ClientConfig{}, 2)
		if script == "sleep 300" {
			ctx, opts = within(t, 5*time.Second), ClientConfig{BackoffMin: 2 * time.Second}
		}
		req := withKubeconfig(w.kubeconfig(t, nil, execUser("sh", "-c", script), nil), "")
		req.KubeconfigName = "the bootstrap kubeconfig"
		_, err := fetchConfigMap(ctx, req, opts)
		e := want{Code: fault.ClusterDenied, Retry: script != "sleep 300", Text: []string{
			"the bootstrap kubeconfig provides no credential: its plugin sh " + says}}.check(t, err)
		if strings.Contains(e.Error(), "secret-of-the-plugin") {
			t.Errorf("got the plugin's output in the message, want none: %v", e)
		}
	}
	if shown := w.take(); shown != [2]string{} {
		t.Errorf("%q was shown to the server, want nothing", shown)
	}
}

// TestPluginLeavesNothing has plugins that leave a process behind, or hang until the time is over: it ends with them,
// and hides no success.
func TestPluginLeavesNothing(t *testing.T) {
	const answer = `echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'`
	for name, c := range table.YAML[map[string]struct {
		Script, Want string
		Limit        table.Duration
	}](t, `
success: {script: 'sleep 20 & {answer}', limit: 1m}
failure: {script: sleep 20 >/dev/null & exit 3, want: exit status 3, limit: 1m}
hanging: {script: sleep 20 & wait, want: did not respond in time, limit: 5s} # until it has started
`, "answer", answer) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held := newHeldPipe(t)

			_, err := newTestPlugin(t, time.Now, "sh", "-c", held.script(c.Script)).run(within(t, c.Limit.Duration))

			if (err == nil) != (c.Want == "") || err != nil && !strings.Contains(err.Error(), c.Want) {
				t.Errorf("got error %v, want %q", err, c.Want)
			}
			held.checkReleased(t)
		})
	}
}

// must ends a test if what it needs fails.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}
