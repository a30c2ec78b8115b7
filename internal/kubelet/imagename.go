package kubelet

import (
	"errors"
	"regexp"
	"strings"
	"sync"
)

// imageName is the grammar of an image's name: a domain with its slash, a path, a tag and a digest. Sources:
// distribution/reference 0.6.0, regexp.go, and opencontainers/go-digest 1.0.0, algorithm.go. The libraries, with which
// the kubelet parses names, compile fifteen expressions at each start of a program.
var imageName = sync.OnceValue(func() *regexp.Regexp {
	const (
		label  = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
		host   = label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\]`
		domain = `(?:` + host + `)(?::[0-9]+)?/`
		part   = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		tag    = `:\w[\w.-]{0,127}`
		digest = `@(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})`
	)

	return regexp.MustCompile(
		`^((?:` + domain + `)?)(` + part + `(?:/` + part + `)*)(?:` + tag + `)?(?:` + digest + `)?$`)
})

// maxImagePath is the largest length of an image's name without its domain, in bytes.
const maxImagePath = 255

// parseImageName returns an image's name without its tag and its digest.
func parseImageName(text string) (name string, err error) {
	match := imageName().FindStringSubmatch(text)
	switch {
	case match == nil && imageName().MatchString(strings.ToLower(text)):
		return "", errors.New("repository name must be lowercase")
	case match == nil:
		return "", errors.New("invalid reference format")
	case len(match[2]) > maxImagePath:
		return "", errors.New("repository name must not be more than 255 characters")
	}

	return match[1] + match[2], nil
}

// familiarImageName returns the short form of an image's name, as people write it: nginx for docker.io/library/nginx.
func familiarImageName(name string) string {
	domain, path, hasDomain := strings.Cut(name, "/")
	if hasDomain && (domain == "docker.io" || domain == "index.docker.io") {
		name = path
	}
	official, isOfficial := strings.CutPrefix(name, "library/")
	if isOfficial && !strings.Contains(official, "/") {
		return official
	}

	return name
}
