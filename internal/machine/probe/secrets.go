package probe

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/machine/probe/cluster"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/model/texts"
)

// refuseSecrets replaces an answer that contains a secret of this node by a failure. The answer would be in plans and
// recordings, and the site could use it without the mark of a secret. An evident secret in an answer is public on the
// node, and is hidden later.
func (l *Live) refuseSecrets(q tape.Question, a tape.Answer) tape.Answer {
	var code fault.Code

	switch q.Kind {
	case tape.KindFile, tape.KindVariable:
		code = fault.Denied
	case tape.KindOriginal:
		code = fault.FileUnusable
	case tape.KindObject, tape.KindTrust:
		code = fault.ClusterUnusable
	default:
		return a
	}

	if !l.holdsSecret(a) {
		return a
	}

	return tape.Failure(code, "the answer contains a secret of this node, and answers are in plans and recordings",
		"Read the secret by credential(\"NAME\"), or a sensitive variable, and remove it from the file or object")
}

// holdsSecret reports whether an answer contains a secret that this process was given.
func (l *Live) holdsSecret(a tape.Answer) bool {
	if a.Value == nil {
		return false
	}

	l.LearnSecrets()

	var v any
	if json.Unmarshal(a.Value, &v) != nil {
		return l.o.Redactor.Holds(string(a.Value))
	}

	return tape.HoldsIn(v, l.o.Redactor.Holds)
}

// LearnSecrets adds each credential of this process to the redactor, once. A credential that cannot be read is
// skipped, because a detector cannot read it either. The value of a variable that is not sensitive is not a
// secret: it may be as common as the name of a zone.
func (l *Live) LearnSecrets() {
	l.secrets.learned.Do(func() {
		credentials, hasNames := l.o.Credentials.(interface{ Names() ([]string, error) })
		if !hasNames {
			return
		}

		names, _ := credentials.Names()
		for _, n := range names {
			if !l.isPublic(n) {
				_, _ = l.Secret(n)
			}
		}
	})
}

// isPublic reports whether a credential is the value of a variable that is not sensitive.
func (l *Live) isPublic(credential string) bool {
	name, isVariable := strings.CutPrefix(credential, variablePrefix)
	if !isVariable || l.o.Site == nil {
		return false
	}

	v := l.o.Site.Variables[name]

	return v != nil && !v.Sensitive
}

// secretPaths are files that contain secrets, and folders of such files.
var secretPaths = []string{
	"/run/credentials",
	"/etc/credstore",
	"/etc/credstore.encrypted",
	"/run/credstore",
	"/run/credstore.encrypted",
	"/usr/local/lib/credstore",
	"/usr/local/lib/credstore.encrypted",
	"/usr/lib/credstore",
	"/usr/lib/credstore.encrypted",
	"/var/lib/systemd/credential.secret",
	"/var/lib/prelet",
	"/etc/shadow",
	"/etc/shadow-",
	"/etc/gshadow",
	"/etc/gshadow-",
	"/etc/security/opasswd",
}

// processSecret matches files of a process that may contain its secrets.
var processSecret = texts.LazyRegexp(`^/proc/[^/]+(/task/[^/]+)?/(environ|mem|auxv|cwd|root|fd|map_files)(/|$)`)

// refusePath returns why a file must not be read, by its path below the root; "" if it may.
func (l *Live) refusePath(p string) string {
	paths := secretPaths
	c, ok := l.o.Credentials.(interface{ Folder() string })
	if ok && c.Folder() != "" {
		paths = append(slices.Clip(paths), path.Clean(c.Folder()))
	}

	for _, secret := range paths {
		if p == secret || strings.HasPrefix(p, secret+"/") {
			return "it is in a place for secrets (" + secret + ")"
		}
	}

	if processSecret().MatchString(p) {
		return "it may contain the secrets of a process"
	}

	return ""
}

var (
	passwordHash = texts.LazyRegexp(`(?m)^[^:\s]+:[!*]*\$[0-9a-z]{1,4}\$[^:\s]+:`) // crypt(5), in a line of shadow(5)
	// An object of Kubernetes, or a list of them, in YAML or JSON.
	secretObject = texts.LazyRegexp(`\bkind["']?\s*:\s*["']?Secret(List)?["']?\s*([,}\r\n#]|$)`)
)

// DescribeSecret returns the kind of a secret that a text contains, by its form; "" if it contains none. It is for the
// check of an image, which finds leftovers of people: evident secrets, whole files of secrets, and the token of
// kubeadm's documentation.
func DescribeSecret(text string) string {
	joined := strings.Join(strings.Fields(text), "") // base64 is often broken into lines
	found := secret.FindEvident(text)
	if len(found) == 0 {
		isOther := func(e secret.Evident) bool { return e.What != secret.PrivateKey }
		found = slices.DeleteFunc(secret.FindEvident(joined), isOther)
	}

	switch {
	case len(found) > 0:
		return found[0].What
	case secret.HoldsToken(text):
		return "a bootstrap token"
	case HoldsKubeconfig(text):
		return "a kubeconfig with credentials"
	case passwordHash().MatchString(text):
		return "hashes of passwords"
	case secretObject().MatchString(text):
		return "a Secret of Kubernetes"
	}

	return ""
}

// HoldsKubeconfig reports whether a text is a kubeconfig that contains a credential.
func HoldsKubeconfig(text string) bool { return cluster.HoldsCredentials([]byte(text)) }
