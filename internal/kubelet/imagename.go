package kubelet

import (
	"regexp"
	"strings"
	"sync"
)

// maxImagePath is the longest name of an image without its registry, in bytes.
const maxImagePath = 255

// The grammar of an image's name. Source: github.com/distribution/reference v0.6.0, regexp.go, which the kubelet uses
// and the tests compare with. That package compiles its expressions at each start of a program.
const (
	hostPart   = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	registry   = `(?:` + hostPart + `(?:\.` + hostPart + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	pathPart   = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	repository = pathPart + `(?:/` + pathPart + `)*`
	tag        = `\w[\w.-]{0,127}`
	digest     = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[[:xdigit:]]{32,}`
)

// imageExpression has two groups, the name with its registry and without it.
var imageExpression = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^((?:` + registry + `/)?(` + repository + `))(?::` + tag + `)?(?:@` + digest + `)?$`)
})

// trimImageName returns an image's name without its tag and its digest; a text that is not a name as it is.
func trimImageName(image string) string {
	groups := imageExpression().FindStringSubmatch(image)
	if groups == nil || len(groups[2]) > maxImagePath {
		return image
	}

	return groups[1]
}

// familiarName returns the name that pods usually give for an image on Docker Hub: "nginx" for
// "docker.io/library/nginx". Another name is returned as it is.
func familiarName(name string) string {
	onHub, isOnHub := strings.CutPrefix(name, "docker.io/")
	if !isOnHub {
		onHub = strings.TrimPrefix(name, "index.docker.io/")
	}

	official, isOfficial := strings.CutPrefix(onHub, "library/")
	if isOfficial && !strings.Contains(official, "/") {
		return official
	}

	return onHub
}
