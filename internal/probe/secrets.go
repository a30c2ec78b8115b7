package live

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/probe/cluster"
	"github.com/prelet/prelet/internal/world"
)

// refuseSecrets returns an answer, or why it is none: it holds a secret of this node, which would then be in plans, in
// recordings and in what the site makes of it, without a mark.
func (l *Live) refuseSecrets(q world.Question, a world.Answer) world.Answer {
	switch q.Kind {
	case world.KindFile, world.KindOriginal, world.KindObject, world.KindVariable, world.KindTrust:
	default:
		return a
	}
	if !l.holdsSecret(a) {
		return a
	}

	code := fault.Denied
	switch q.Kind {
	case world.KindOriginal:
		code = fault.FileUnusable
	case world.KindObject, world.KindTrust:
		code = fault.ClusterUnusable
	}
	return world.Failure(code, "the answer holds a secret of this node, and what is read is in plans and recordings",
		"Read the secret by credential(\"NAME\"), or a sensitive variable, and keep it out of what is read")
}

// holdsSecret reports whether an answer holds a secret that this process was given.
func (l *Live) holdsSecret(a world.Answer) bool {
	if l.o.Redactor == nil || a.Value == nil {
		return false
	}
	l.learnSecrets()

	var v any
	if json.Unmarshal(a.Value, &v) != nil {
		return l.o.Redactor.Holds(string(a.Value))
	}
	return world.HoldsIn(v, l.o.Redactor.Holds)
}

// LearnSecrets lets the redactor know each credential that this process was given. One that cannot be read here cannot be
// read by a detector either. That of a variable that is not sensitive is no secret: it may be as common as a zone's name.
func (l *Live) LearnSecrets() { l.learnSecrets() }

func (l *Live) learnSecrets() {
	l.learned.Do(func() {
		given, ok := l.o.Credentials.(interface{ Names() ([]string, error) })
		if !ok {
			return
		}
		names, _ := given.Names()
		for _, n := range names {
			if !l.isPublic(n) {
				_, _ = l.Secret(n)
			}
		}
	})
}

// isPublic reports whether a credential is the value of a variable that the site does not call sensitive.
func (l *Live) isPublic(credential string) bool {
	name, ok := strings.CutPrefix(credential, variablePrefix)
	if !ok || l.o.Site == nil {
		return false
	}
	v := l.o.Site.Variables[name]
	return v != nil && !v.Sensitive
}

// secretFolders are folders whose files hold secrets, and files that do.
var secretFolders = []string{
	"/run/credentials", "/etc/credstore", "/etc/credstore.encrypted", "/run/credstore", "/run/credstore.encrypted",
	"/usr/lib/credstore", "/usr/lib/credstore.encrypted", "/var/lib/systemd/credential.secret",
	"/var/lib/prelet", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd",
}

// processSecret are files of a process that may hold its secrets.
var processSecret = regexp.MustCompile(`^/proc/[^/]+(/task/[^/]+)?/(environ|mem|auxv|cwd|root|fd|map_files)(/|$)`)

// refusePath returns why a file is not read, by its path below the root; "" for the others.
func (l *Live) refusePath(p string) string {
	folders := secretFolders
	if c, ok := l.o.Credentials.(interface{ Folder() string }); ok && c.Folder() != "" {
		folders = append([]string{path.Clean(c.Folder())}, folders...)
	}
	for _, dir := range folders {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return "it lies where secrets are kept (" + dir + ")"
		}
	}
	if processSecret.MatchString(p) {
		return "it may hold the secrets of a process"
	}
	return ""
}

// armour knows private keys in PEM, also inside of base64, hex and JSON.
func newArmour() *value.Redactor {
	r := value.NewRedactor()
	r.Add([]byte("PRIVATE KEY-----"))
	return r
}

var (
	jwt          = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)
	passwordHash = regexp.MustCompile(`(?m)^[^:\s]+:[!*]*\$[0-9a-z]{1,4}\$[^:\s]+:`) // crypt(5), in a line of shadow(5)
)

// describeSecret returns what a text holds that is a secret wherever it is found; "" for nothing.
func describeSecret(text string) string {
	joined := strings.Join(strings.Fields(text), "") // base64 is often broken into lines
	switch armour := newArmour(); {
	case armour.Holds(text), armour.Holds(joined):
		return "a private key"
	case value.HoldsToken(text):
		return "a bootstrap token"
	case cluster.HoldsCredentials([]byte(text)):
		return "a kubeconfig with credentials"
	case jwt.MatchString(text):
		return "a token of a service account"
	case passwordHash.MatchString(text):
		return "hashes of passwords"
	}
	return ""
}
