package kubeletbin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/failure"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/texts"
	"github.com/prelet/prelet/plugins/sandbox"
)

// DryRun is a start of a kubelet that ends after it has parsed its command line, read and merged its configuration, and
// validated both, and before it touches the API server, the runtime or a control group.
//
// run() of cmd/kubelet/app/server.go ends there if --exit-on-lock-contention is given and --lock-file is not, in all
// versions that prelet knows. The kubelet is confined in addition: it writes into a private folder only and connects to
// nothing, so that a program that ignores the flag can do no harm.
type DryRun struct {
	Program     string         // the kubelet, or a script that executes it
	Words       []kubelet.Word // its arguments, as systemd would pass them
	Environment []string       // NAME=VALUE, of its unit
	Config      []byte         // the file of --config; nil: none
	DropIns     []ConfigFile   // those in the folder of --config-dir; nil: none
	Folder      string         // where a private folder is made; "": that of temporary files
}

// ConfigFile is a file of the folder of --config-dir.
type ConfigFile struct {
	Path    string // below that folder
	Content []byte
}

// Digest returns a digest of the words and the files.
func (d DryRun) Digest() string {
	text, _ := json.Marshal([]any{d.Words, d.Config, d.DropIns}) // strings and bytes only
	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:])
}

// Verdict is the result of a dry run.
type Verdict struct {
	Accepted bool
	Refusal  string // the kubelet's own words; "" if it accepts
	Broken   string // why the program cannot run on this machine; "" if it can
}

// dryRunEnd is how a kubelet ends that has accepted everything before.
const dryRunEnd = "cannot exit on lock file contention: no lock file specified"

// dryRunTimeout is the time limit of a dry run without a deadline. It takes 0.1 s.
const dryRunTimeout = 10 * time.Second

// maxDryRunOutput is how many bytes of the end of the kubelet's output are kept.
const maxDryRunOutput = 256 << 10

// Run starts the kubelet. It fails if the kubelet does not answer: it cannot be started, hangs, is killed, or ends for
// a reason that is not one of its command line and configuration.
func (d DryRun) Run(ctx context.Context) (Verdict, error) {
	folder, remove, err := makeFolder(d.Folder)
	if err != nil {
		return Verdict{}, fmt.Errorf("no private folder can be made: %w", err)
	}
	defer remove()

	words, names, err := d.stage(folder)
	if err != nil {
		return Verdict{}, fmt.Errorf("its files cannot be written: %w", err)
	}

	out := secret.Tail{Most: maxDryRunOutput}
	cmd := exec.Command(d.Program, words...)
	cmd.Env = d.Environment
	cmd.Dir = folder
	cmd.Stdout = &out
	cmd.Stderr = &out
	_, broken, err := runWithin(ctx, cmd)
	if broken != "" || err != nil {
		return Verdict{Broken: broken}, err
	}

	text := strings.ReplaceAll(out.Text(), "\r\n", "\n")
	v, err := readVerdict(strings.Split(names.Replace(text), "\n"))
	if v.Accepted && d.lacksLock() {
		return Verdict{Refusal: dryRunEnd}, nil
	}

	return v, err
}

// runWithin runs a command that ends by itself: it may write into its own folder only. isZero reports whether its exit
// status is 0; broken is why no start of it can work.
func runWithin(ctx context.Context, c *exec.Cmd) (isZero bool, broken string, err error) {
	most := min(limit(ctx), dryRunTimeout)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()

	cmd := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, c.Env...)
	cmd.Dir = c.Dir
	cmd.Stdout = c.Stdout
	cmd.Stderr = c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return killGroup(cmd) }
	cmd.WaitDelay = time.Second

	err = sandbox.RunReadOnly(cmd, cmd.Dir)
	_ = killGroup(cmd) // and its children

	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, "", fmt.Errorf("no answer within %s", most.Round(time.Millisecond))
	case isBroken(err):
		return false, err.Error(), nil
	case errors.As(err, &exit) && !exit.Exited():
		return false, "", fmt.Errorf("it was killed: %s", exit)
	case err != nil && !errors.As(err, &exit):
		return false, "", err
	}

	return err == nil, "", nil
}

// lacksLock reports whether the kubelet itself ends as its dry run does.
func (d DryRun) lacksLock() bool {
	flags := kubelet.FlagsOf(d.Words)
	ends, _ := flags.Lookup("exit-on-lock-contention")
	file, _ := flags.Lookup("lock-file")
	isOn, _ := strconv.ParseBool(ends)

	return isOn && file == "" && !flags.MayHave("lock-file")
}

// folderPrefix begins the name of each private folder. It is removed by this name, which no other program may have.
const folderPrefix = "prelet-dry-run-"

// makeFolder makes a private folder, which is locked while it is in use, and removes those that are not.
func makeFolder(in string) (folder string, remove func(), err error) {
	RemoveLeft(in)
	folder, err = os.MkdirTemp(in, folderPrefix)
	if err != nil {
		return "", nil, err
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(folder))
	}

	return folder, func() {
		_ = os.RemoveAll(folder)
		_ = lock.Close()
	}, nil
}

// RemoveLeft removes the private folders of dry runs that were killed: they may contain secrets. in is the folder
// around them, as for DryRun.
func RemoveLeft(in string) {
	left, _ := filepath.Glob(filepath.Join(cmp.Or(in, os.TempDir()), folderPrefix+"*"))
	for _, folder := range left {
		if lock, err := lockFolder(folder); err == nil {
			_ = os.RemoveAll(folder)
			_ = lock.Close()
		}
	}
}

// lockFolder locks a private folder of this user. It fails if another process has locked it.
func lockFolder(folder string) (*os.File, error) {
	f, err := os.OpenFile(folder, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	err = cmp.Or(unix.Fstat(int(f.Fd()), &st), unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	if err == nil && int(st.Uid) != os.Geteuid() {
		err = fs.ErrPermission
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}

	return f, nil
}

// isBroken reports whether the result of a program shows that no start of it can work: a part of the file is missing,
// or it is of another machine.
func isBroken(err error) bool {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, _ := exit.Sys().(syscall.WaitStatus)

		return slices.Contains([]syscall.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGILL}, status.Signal())
	}

	var start *fs.PathError // of os.StartProcess

	return errors.As(err, &start) && (start.Err == unix.ENOENT || start.Err == unix.ENOEXEC)
}

// killGroup kills the processes of a command that was started.
func killGroup(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}

	return unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
}

// stage writes the files of a dry run into its folder, and returns the words that name them. names gives the files in a
// text their own names back.
func (d DryRun) stage(folder string) (words []string, names *strings.Replacer, err error) {
	certificate, key, err := makePair()
	if err != nil {
		return nil, nil, err
	}

	instead := map[string]string{
		"exit-on-lock-contention": "true",
		"lock-file":               "",
		"root-dir":                filepath.Join(folder, "root"),
		"cert-dir":                filepath.Join(folder, "pki"),
		"log-dir":                 folder,
		"log-file":                filepath.Join(folder, "log"),
		"config":                  filepath.Join(folder, "config.yaml"),
		"config-dir":              filepath.Join(folder, "config.d"),
		"tls-cert-file":           filepath.Join(folder, "pki/kubelet.crt"),
		"tls-private-key-file":    filepath.Join(folder, "pki/kubelet.key"),
		"client-ca-file":          filepath.Join(folder, "pki/kubelet.crt"),
	}

	files := map[string][]byte{
		instead["tls-cert-file"]:        certificate,
		instead["tls-private-key-file"]: key,
	}
	if d.Config != nil {
		files[instead["config"]] = d.Config
	}
	for _, f := range d.DropIns {
		files[filepath.Join(instead["config-dir"], filepath.Clean("/"+f.Path))] = f.Content
	}
	for path, content := range files {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
	}
	if d.DropIns != nil {
		err = errors.Join(err, os.MkdirAll(instead["config-dir"], 0o700))
	}

	words = []string{"--exit-on-lock-contention"}
	for _, name := range []string{"root-dir", "cert-dir"} {
		words = append(words, "--"+name+"="+instead[name])
	}
	// The rules check certificates. Here those of the machine need not exist, and flags win over the configuration.
	for field, flag := range map[string]string{
		"clientCAFile": "client-ca-file", "tlsCertFile": "tls-cert-file", "tlsPrivateKeyFile": "tls-private-key-file",
	} {
		if d.mentions(field) {
			words = append(words, "--"+flag+"="+instead[flag])
		}
	}

	var renamed []string
	words = append(words, kubelet.FlagsOf(kubelet.DropOpen(d.Words)).Replace(func(name, text string) string {
		other, isReplaced := instead[name]
		switch {
		case isReplaced && text != "":
			if strings.HasPrefix(other, folder) {
				renamed = append(renamed, other, text)
			}
			return other
		case secret.IsSetting(name):
			return hideValue(name, text)
		}

		return password().ReplaceAllString(text, "${1}hidden@")
	})...)

	return words, strings.NewReplacer(append(renamed, folder+"/", "")...), err
}

// mentions reports whether some file of the configuration contains the name of a field.
func (d DryRun) mentions(field string) bool {
	contains := func(text []byte) bool { return bytes.Contains(text, []byte(field)) }

	return contains(d.Config) || slices.ContainsFunc(d.DropIns, func(f ConfigFile) bool { return contains(f.Content) })
}

// password matches the password in an address.
var password = texts.LazyRegexp(`(://[^/?#@:\s]*:)[^/?#@\s]+@`)

// hideValue returns a value of the same form for a flag with a secret: other users may read a command line.
func hideValue(name, value string) string {
	header, _, isHeader := strings.Cut(value, ":")
	if isHeader && name == "manifest-url-header" {
		return header + ":hidden"
	}
	if value == "" {
		return ""
	}

	return "hidden"
}

// makePair returns a self-signed certificate and its private key. With them the kubelet need not make its own, which
// takes 0.2 s.
func makePair() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	signed, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	key = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})

	return certificate, key, err
}

// readVerdict returns the verdict in the last lines of a kubelet's output.
func readVerdict(lines []string) (Verdict, error) {
	last := failure.LastErrorWhole(lines)
	switch {
	case strings.Contains(last, dryRunEnd):
		return Verdict{Accepted: true}, nil
	case last == "":
		return Verdict{}, errors.New("it ended without an error of its own")
	case isOfMachine(last):
		return Verdict{}, fmt.Errorf("it ended for another reason: %s", last)
	}

	return Verdict{Refusal: last}, nil
}

// isOfMachine reports whether an error is not about the command line and configuration: the confinement, or the state
// of this machine. A fatal error is one of Go's runtime, such as no memory, never the kubelet's own message.
func isOfMachine(text string) bool {
	return strings.HasPrefix(text, "fatal error: ") || slices.ContainsFunc([]string{
		"operation not permitted",
		"permission denied",
		"read-only file system",
		"no space left on device",
		"cannot allocate memory",
		"too many open files",
		"resource temporarily unavailable",
	}, func(part string) bool { return strings.Contains(text, part) })
}
