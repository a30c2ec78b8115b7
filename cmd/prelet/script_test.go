package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/prelet/prelet/internal/hardware/hwtree"
)

// scene is what one scenario has at hand.
type scene struct {
	work    string
	ca      *authority
	server  *apiserver // the one that was started last
	before  string     // what `snapshot` saw
	secrets []string   // what must not be seen
	stop    []func()
	shared  *machines
}

type sceneKey struct{}

func of(ts *testscript.TestScript) *scene { return ts.Value(sceneKey{}).(*scene) }

// setUp makes a node: an empty root with an os-release, a bare VM's hardware, a bootstrap token, and a site template
// unless the scenario has its own.
func setUp(e *testscript.Env, shared *machines) error {
	s := &scene{work: e.WorkDir, ca: newAuthority("kubernetes"), secrets: []string{tokenSecret}, shared: shared}
	e.Values[sceneKey{}] = s
	e.Defer(func() {
		for _, f := range slices.Backward(s.stop) {
			f()
		}
	})
	for path, text := range map[string]string{"root/etc/os-release": "ID=debian\nNAME=Debian\n", "credentials/bootstrap-token": goodToken + "\n", "site.in/site.hcl": baseSite} {
		p := filepath.Join(e.WorkDir, path)
		if _, err := os.Stat(filepath.Dir(p)); err == nil && strings.HasPrefix(path, "site.in/") {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(path, "credentials/") {
			mode = 0o400
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(e.WorkDir, "objects"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(e.WorkDir, "objects/ca.crt"), s.ca.pem(), 0o644); err != nil {
		return err
	}
	cm := map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]string{"name": "kubelet-config", "namespace": "kube-system", "resourceVersion": "7"}, "data": map[string]string{"kubelet": servedConfig}}
	if err := os.MkdirAll(filepath.Join(e.WorkDir, "objects/kube-system"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(e.WorkDir, "objects/kube-system/kubelet-config.yaml"), must(json.Marshal(cm)), 0o644); err != nil {
		return err
	}
	if err := s.machine("bare-vm", false); err != nil {
		return err
	}
	repo, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	e.Setenv("REPO", repo)
	e.Setenv("CREDENTIALS_DIRECTORY", filepath.Join(e.WorkDir, "credentials"))
	e.Setenv("SERVER", "https://127.0.0.1:1")
	e.Setenv("PIN", s.ca.pin())
	return expandSite(s, func(k string) string {
		return map[string]string{"SERVER": "https://127.0.0.1:1", "PIN": s.ca.pin()}[k]
	})
}

const baseSite = `cluster {
  servers        = ["@SERVER@"]
  ca_cert_hashes = ["@PIN@"]
  token          = credential("bootstrap-token")
  retry          = "300ms"
}
stage "fetch-ca" "cluster" {}
stage "fetch-config" "kubelet" { config_map = "kube-system/kubelet-config" }
stage "detect-hw" "node" {}
stage "reserve" "node" { policy = "gke" }
stage "label" "site" { labels = { "example.com/zone" = "az1" } }
stage "write" "kubelet" {}
stage "restart" "kubelet" {}
`

// expandSite writes site/ from site.in/: @NAME@ is the environment's NAME.
func expandSite(s *scene, env func(string) string) error {
	in := filepath.Join(s.work, "site.in")
	return filepath.WalkDir(in, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(in, p)
		if err != nil {
			return err
		}
		to := filepath.Join(s.work, "site", rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		parts := strings.Split(string(b), "@")
		for i := 1; i < len(parts)-1; i++ {
			if parts[i] != "" && strings.ToUpper(parts[i]) == parts[i] && !strings.ContainsAny(parts[i], " \n.") {
				parts[i-1] += env(parts[i]) + parts[i+1]
				parts = append(parts[:i], parts[i+2:]...)
				i--
			}
		}
		return os.WriteFile(to, []byte(strings.Join(parts, "@")), 0o644)
	})
}

func condition(c string) (bool, error) {
	if c == "root" {
		return os.Geteuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", c)
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits": cmdExits, "node": cmdNode, "refused": cmdRefused,
		"apiserver": cmdAPIServer, "blackhole": cmdBlackhole, "site": cmdSite, "machine": cmdMachine, "unauthorized": cmdUnauthorized, "requests": cmdRequests,
		"snapshot": cmdSnapshot, "same": cmdSame,
		"tells": cmdTells, "json": cmdJSON, "save": cmdSave, "columns": cmdColumns, "secret": cmdSecret, "hidden": cmdHidden, "put": cmdPut, "fill": cmdFill, "mount": cmdMount, "immutable": cmdImmutable, "fifo": cmdFIFO, "bytes": cmdBytes, "public": cmdPublic, "mode": cmdMode, "joined": cmdJoined, "facts": cmdFacts, "kept": cmdKept, "unmount": cmdUnmount,
	}
}

// exits N COMMAND ARGS...: runs it and looks at its exit status. Whatever it says is searched for secrets.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var x *exec.ExitError
	if errors.As(err, &x) {
		got = x.ExitCode()
	} else {
		ts.Check(err)
	}
	noSecret(ts, "stdout", []byte(ts.ReadFile("stdout")))
	noSecret(ts, "stderr", []byte(ts.ReadFile("stderr")))
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// about is which node and site a command of a scenario is about.
func about(ts *testscript.TestScript, args []string) []string {
	w := of(ts).work
	out := []string{}
	has := func(f string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return a == f || strings.HasPrefix(a, f+"=") })
	}
	for _, x := range [][2]string{{"--config", w + "/site"}, {"--root", w + "/root"}, {"--hardware", w + "/machine"}} {
		if !has(x[0]) {
			out = append(out, x[0], x[1])
		}
	}
	return append(out, args...)
}

// node N COMMAND ARGS...: `prelet COMMAND` on the scenario's node.
func cmdNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: node N COMMAND [ARGS...]")
	}
	cmdExits(ts, false, append([]string{args[0], "prelet", args[1]}, about(ts, args[2:])...))
}

// refused N ARGS...: plan -o json and run both end with N. The plan is one JSON document that says that it is not
// complete and why; neither touches a target. What run said is left for `stderr`.
func cmdRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: refused N [ARGS...]")
	}
	before := tree(ts)
	cmdNode(ts, false, append([]string{args[0], "plan", "-o", "json"}, args[1:]...))
	doc := document(ts)
	if doc["complete"] != false {
		ts.Fatalf("the plan says complete = %v", doc["complete"])
	}
	if ds, ok := doc["diagnostics"].([]any); !ok || !slices.ContainsFunc(ds, func(d any) bool { return d.(map[string]any)["severity"] == "error" }) {
		ts.Fatalf("the plan does not say why: %v", doc["diagnostics"])
	}
	cmdNode(ts, false, append([]string{args[0], "run"}, args[1:]...))
	if after := tree(ts); after != before {
		ts.Fatalf("targets were touched:\nbefore:\n%s\nafter:\n%s", before, after)
	}
	if ts.ReadFile("stdout") != "" {
		ts.Fatalf("a result was printed on stdout")
	}
	if e := ts.ReadFile("stderr"); !strings.HasPrefix(e, "Error: ") && !strings.Contains(e, "\nError: ") && !strings.Contains(e, "prelet: ") {
		ts.Fatalf("no error was told")
	}
}

// apiserver FAULT [NAME]: starts a server; $SERVER (and $NAME) is its URL. The site is written anew. `apiserver stop` ends the
// last one.
func cmdAPIServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: apiserver FAULT [NAME]")
	}
	s := of(ts)
	if args[0] == "stop" {
		s.server.CloseClientConnections()
		s.server.Close()
		return
	}
	srv, err := startServer(s.ca, args[0])
	ts.Check(err)
	s.server = srv
	s.stop = append(s.stop, func() { srv.CloseClientConnections(); srv.Close() })
	ts.Setenv("SERVER", srv.URL)
	if len(args) == 2 {
		ts.Setenv(args[1], srv.URL)
	}
	cmdSite(ts, false, nil)
}

// blackhole: $SERVER is an address where nobody answers a SYN: a listener whose queue is full.
func cmdBlackhole(ts *testscript.TestScript, neg bool, args []string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	ts.Check(err)
	s := of(ts)
	s.stop = append(s.stop, func() { syscall.Close(fd) })
	ts.Check(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	ts.Check(syscall.Listen(fd, 0))
	a, err := syscall.Getsockname(fd)
	ts.Check(err)
	in := a.(*syscall.SockaddrInet4)
	addr := fmt.Sprintf("127.0.0.1:%d", in.Port)
	for range 3 { // fill the queue
		c, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
		ts.Check(err)
		s.stop = append(s.stop, func() { syscall.Close(c) })
		if err := syscall.Connect(c, in); err != nil && err != syscall.EINPROGRESS {
			ts.Check(err)
		}
	}
	ts.Setenv("SERVER", "https://"+addr)
	cmdSite(ts, false, nil)
}

// site: writes site/ anew from site.in/ and the environment.
func cmdSite(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(expandSite(of(ts), ts.Getenv))
}

// machine NAME [own]: another recorded machine's hardware; `own` to change it.
func cmdMachine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 || len(args) == 2 && args[1] != "own" {
		ts.Fatalf("usage: machine NAME [own]")
	}
	ts.Check(of(ts).machine(args[0], len(args) == 2))
}

// machine puts a machine's tree at machine/: one of its own, or a link to one that all scenarios share, because a machine of
// eight GPUs is eight thousand files.
func (s *scene) machine(name string, own bool) error {
	dir, spec := filepath.Join(s.work, "machine"), "../../testdata/hardware/spec/"+name+".json"
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if own {
		return hwtree.BuildFile(spec, dir)
	}
	shared, err := s.shared.get(name, spec)
	if err != nil {
		return err
	}
	return os.Symlink(shared, dir)
}

// machines are the trees that scenarios share; nobody changes them.
type machines struct {
	dir   string
	mu    sync.Mutex
	built map[string]func() (string, error)
}

func (m *machines) get(name, spec string) (string, error) {
	m.mu.Lock()
	f, ok := m.built[name]
	if !ok {
		f = sync.OnceValues(func() (string, error) {
			dir := filepath.Join(m.dir, name)
			return dir, hwtree.BuildFile(spec, dir)
		})
		m.built[name] = f
	}
	m.mu.Unlock()
	return f()
}

// unauthorized: the last server was asked, and never with an Authorization header.
func cmdUnauthorized(ts *testscript.TestScript, neg bool, _ []string) {
	srv := of(ts).server
	if n := srv.authorized.Load(); (n != 0) != neg {
		ts.Fatalf("%d requests carried Authorization", n)
	}
}

// requests N: the last server was asked so often, altogether.
func cmdRequests(ts *testscript.TestScript, _ bool, args []string) {
	if got := fmt.Sprint(of(ts).server.requests.Load()); got != args[0] {
		ts.Fatalf("%s requests, want %s", got, args[0])
	}
}

// tree is every target below the root: inode, times, mode, owner, bytes. prelet's own folders are left out.
func tree(ts *testscript.TestScript) string {
	var b strings.Builder
	root := ts.MkAbs("root")
	ts.Check(filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if rel == "run" || rel == "var/lib/prelet" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		if d.IsDir() { // var and var/lib are made for prelet's own folder
			if rel != "." && rel != "var" && rel != "var/lib" {
				fmt.Fprintf(&b, "%s %v %d:%d %d\n", rel, info.Mode(), st.Uid, st.Gid, st.Ino)
			}
			return nil
		}
		content := []byte{}
		if info.Mode().IsRegular() {
			if content, err = os.ReadFile(p); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%s %v %d:%d inode %d mtime %v %q\n", rel, info.Mode(), st.Uid, st.Gid, st.Ino, info.ModTime().UnixNano(), content)
		return nil
	}))
	return b.String()
}

func cmdSnapshot(ts *testscript.TestScript, _ bool, _ []string) { of(ts).before = tree(ts) }

// same: the targets are as `snapshot` saw them. `! same`: they are not.
func cmdSame(ts *testscript.TestScript, neg bool, _ []string) {
	before, after := of(ts).before, tree(ts)
	if before == "" {
		ts.Fatalf("no snapshot was taken")
	}
	if (before == after) == neg {
		ts.Fatalf("before:\n%s\nafter:\n%s", before, after)
	}
}

// tells REGEXP: a paragraph of stderr matches, its line breaks undone. `! tells`: none does.
func cmdTells(ts *testscript.TestScript, neg bool, args []string) {
	re, err := regexp.Compile(args[0])
	ts.Check(err)
	found := false
	for _, p := range strings.Split(ts.ReadFile("stderr"), "\n\n") {
		found = found || re.MatchString(strings.Join(strings.Fields(p), " "))
	}
	if found == neg {
		ts.Fatalf("match of %s in stderr: %t", args[0], found)
	}
}

// document is stdout as the one JSON document that it must be.
func document(ts *testscript.TestScript) map[string]any {
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		ts.Fatalf("stdout is no JSON document: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		ts.Fatalf("stdout goes on after its document")
	}
	return m
}

// json PATH [VALUE]: a place of stdout's document, keys and indexes parted by "/", is that text or JSON. `! json PATH`: it is not there.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		document(ts)
		return
	}
	var v any = document(ts)
	found := true
	for _, k := range strings.Split(args[0], "/") {
		k = strings.ReplaceAll(k, "~1", "/")
		switch x := v.(type) {
		case map[string]any:
			v, found = x[k]
		case []any:
			i, err := strconv.Atoi(k)
			if found = err == nil && i < len(x); found {
				v = x[i]
			}
		default:
			found = false
		}
		if !found {
			break
		}
	}
	if neg {
		if found {
			ts.Fatalf("%s is there: %v", args[0], v)
		}
		return
	}
	if !found {
		ts.Fatalf("there is no %s", args[0])
	}
	got, ok := v.(string)
	if !ok {
		got = string(must(json.Marshal(v)))
	}
	if len(args) == 2 && got != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// save PATH VARIABLE: a place of stdout's document becomes a variable of the environment.
func cmdSave(ts *testscript.TestScript, _ bool, args []string) {
	v, ok := document(ts)[args[0]].(string)
	if !ok || v == "" {
		ts.Fatalf("there is no text %s", args[0])
	}
	ts.Setenv(args[1], v)
}

// columns N: no line of stdout and stderr is longer. Lines of a file that is shown ("+", "-" or " " six columns in), and words
// that nobody can break, may be.
func cmdColumns(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for _, f := range []string{"stdout", "stderr"} {
		for _, l := range strings.Split(ts.ReadFile(f), "\n") {
			if strings.ContainsRune(l, '\x1b') {
				ts.Fatalf("%s has an escape sequence: %q", f, l)
			}
			if utf8.RuneCountInString(l) <= n || strings.HasPrefix(l, "      +") || strings.HasPrefix(l, "      -") || strings.HasPrefix(l, "       ") || len(strings.Fields(l)) <= 2 {
				continue
			}
			ts.Fatalf("%s has a line of %d columns: %s", f, utf8.RuneCountInString(l), l)
		}
	}
}

// secret TEXT: from now on nothing that is printed may hold it.
func cmdSecret(ts *testscript.TestScript, _ bool, args []string) {
	s := of(ts)
	s.secrets = append(s.secrets, args[0])
}

// hidden DIR|FILE [EXCEPT...]: no file there holds a secret, in any form, but those whose path ends in one of the exceptions;
// each exception must hold one.
func cmdHidden(ts *testscript.TestScript, _ bool, args []string) {
	found := map[string]bool{}
	n := 0
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		n++
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, e := range args[1:] {
			if strings.HasSuffix(p, e) || strings.HasSuffix(e, "/") && strings.Contains(p, e) {
				found[e] = found[e] || seen(of(ts).secrets, b) != ""
				return nil
			}
		}
		noSecret(ts, p, b)
		return nil
	}))
	if n == 0 {
		ts.Fatalf("there is no file in %s", args[0])
	}
	for _, e := range args[1:] {
		if !found[e] {
			ts.Fatalf("no secret is in %s, where one belongs", e)
		}
	}
}

func noSecret(ts *testscript.TestScript, where string, b []byte) {
	if form := seen(of(ts).secrets, b); form != "" {
		ts.Fatalf("a secret is in %s, %s", where, form)
	}
}

// seen says in which form a secret stands in a text; "" if in none. Base64 is searched at each of its three alignments.
func seen(secrets []string, text []byte) string {
	lower := bytes.ToLower(text)
	for _, s := range secrets {
		quoted := string(must(json.Marshal(s)))
		forms := map[string]string{"plain": s, "hex": hex.EncodeToString([]byte(s)), "escaped": quoted[1 : len(quoted)-1], "quoted": strings.Trim(strconv.QuoteToASCII(s), `"`)}
		for i := range 3 {
			e := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", i) + s))
			from := []int{0, 2, 3}[i]
			forms[fmt.Sprintf("base64 at %d", i)] = e[from : len(e)-len(e)%4-4]
		}
		for form, x := range forms {
			if bytes.Contains(text, []byte(x)) || form == "hex" && bytes.Contains(lower, []byte(x)) {
				return form
			}
		}
	}
	return ""
}

// put FILE TEXT [MODE]: writes a file, with \n for a new line, and its folders.
func cmdPut(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.MkAbs(args[0])
	if machine := ts.MkAbs("machine"); strings.HasPrefix(p, machine+"/") {
		if st, err := os.Lstat(machine); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			ts.Fatalf("this machine is shared: `machine NAME own` makes one to change")
		}
	}
	ts.Check(os.MkdirAll(filepath.Dir(p), 0o755))
	ts.Check(os.RemoveAll(p))
	mode := uint64(0o644)
	if len(args) == 3 {
		var err error
		mode, err = strconv.ParseUint(args[2], 8, 32)
		ts.Check(err)
	}
	ts.Check(os.WriteFile(p, []byte(strings.ReplaceAll(args[1], `\n`, "\n")), 0o600))
	ts.Check(os.Chmod(p, fs.FileMode(mode)))
}

// fill FILE TEXT N [BEFORE [AFTER]]: writes a text N times.
func cmdFill(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	text := strings.Repeat(args[1], n)
	if len(args) > 3 {
		text = args[3] + text
	}
	if len(args) > 4 {
		text += args[4]
	}
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, `\n`, "\n")), 0o644))
}

// mount tmpfs DIR OPTIONS, mount readonly DIR, mount bind PATH: root's faults of a disk.
func cmdMount(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[1])
	if _, err := os.Stat(dir); err != nil {
		ts.Check(os.MkdirAll(dir, 0o755))
	}
	var err error
	switch args[0] {
	case "tmpfs":
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, args[2])
	case "bind":
		err = syscall.Mount(dir, dir, "", syscall.MS_BIND, "")
	case "readonly":
		if err = syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err == nil {
			err = syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		}
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		ts.Fatalf("this root may not mount: %v", err)
	}
	ts.Check(err)
	of(ts).stop = append(of(ts).stop, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// immutable FILE: sets the flag that chattr +i sets.
func cmdImmutable(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.MkAbs(args[0])
	if out, err := exec.Command("chattr", "+i", p).CombinedOutput(); err != nil {
		ts.Fatalf("chattr +i: %v: %s", err, out)
	}
	of(ts).stop = append(of(ts).stop, func() { _ = exec.Command("chattr", "-i", p).Run() })
}

// fifo FILE makes a FIFO that nobody writes to. `fifo -socket FILE` makes a socket.
func cmdFIFO(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "-socket" {
		l, err := net.Listen("unix", ts.MkAbs(args[1]))
		ts.Check(err)
		of(ts).stop = append(of(ts).stop, func() { l.Close() })
		return
	}
	ts.Check(syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// bytes FILE HEX...: writes a file of these bytes.
func cmdBytes(ts *testscript.TestScript, _ bool, args []string) {
	b, err := hex.DecodeString(strings.Join(args[1:], ""))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// public lets everybody reach the scenario's folder, for prelet-as-nobody.
func cmdPublic(ts *testscript.TestScript, _ bool, _ []string) {
	s := of(ts)
	for _, d := range []string{filepath.Dir(s.work), s.work, filepath.Dir(s.shared.dir), s.shared.dir} {
		ts.Check(os.Chmod(d, 0o755))
	}
}

func cmdUnmount(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(syscall.Unmount(ts.MkAbs(args[0]), syscall.MNT_DETACH))
}

// mode FILE OCTAL
func cmdMode(ts *testscript.TestScript, _ bool, args []string) {
	st, err := os.Lstat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", st.Mode().Perm()); got != args[1] {
		ts.Fatalf("mode %s, want %s", got, args[1])
	}
}

// kept DIR TEXT: some file there holds the text.
func cmdKept(ts *testscript.TestScript, _ bool, args []string) {
	found := false
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		found = found || bytes.Contains(b, []byte(args[1]))
		return err
	}))
	if !found {
		ts.Fatalf("no file in %s holds %q", args[0], args[1])
	}
}

// facts NAME: stdout's facts are those recorded of a machine in testdata, and the GPUs among its accelerators once more.
func cmdFacts(ts *testscript.TestScript, _ bool, args []string) {
	b, err := os.ReadFile("../../testdata/hardware/facts/" + args[0] + ".json")
	ts.Check(err)
	var want map[string]any
	ts.Check(json.Unmarshal(b, &want))
	got, ok := document(ts)["facts"].(map[string]any)
	if !ok {
		ts.Fatalf("there are no facts")
	}
	gpus := []any{}
	for _, a := range want["accelerators"].([]any) {
		if a.(map[string]any)["kind"] == "gpu" {
			gpus = append(gpus, a)
		}
	}
	want["gpus"] = gpus
	for _, m := range []map[string]any{want, got} { // not by go-cmp, which links text/template: see TestNoTemplateIsLinked
		for fact := range m {
			if !reflect.DeepEqual(want[fact], got[fact]) {
				ts.Fatalf("%s is %v, not %v", fact, got[fact], want[fact])
			}
		}
	}
}

// joined [expired|other-key]: the node gets a kubelet.conf, as when its kubelet has joined the last server's cluster.
func cmdJoined(ts *testscript.TestScript, _ bool, args []string) {
	s, end, how := of(ts), time.Now().AddDate(1, 0, 0), strings.Join(args, "")
	if how == "expired" {
		end = time.Now().Add(-time.Hour)
	}
	p := ts.MkAbs("root/etc/kubernetes/kubelet.conf")
	ts.Check(os.MkdirAll(filepath.Dir(p), 0o755))
	ts.Check(os.WriteFile(p, []byte(s.ca.kubeletConf(s.server.URL, end, how == "other-key")), 0o600))
}
