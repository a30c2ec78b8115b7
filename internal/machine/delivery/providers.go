package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prelet/prelet/internal/machine"
	"github.com/prelet/prelet/internal/machine/probe"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/schema"
)

// providerTimeout limits one run of a plugin; the kubelet gives it a minute. It is less than maxPlace.
const providerTimeout = 15 * time.Second

// providers asks the kubelet's image credential providers for a password, by the plugins that the image has for its
// kubelet. Each look asks again: a password that is not kept cannot be old.
type providers struct {
	env   *machine.Env
	place schema.CredentialProvider
}

// credential implements registry.Client.Credential. The configuration is read each time, because cloud-init may write
// it late. A password is that of the first plugin that has one for this repository.
func (p providers) credential(ctx context.Context, host, repository string) (user, password string, err error) {
	if host == "registry-1.docker.io" {
		host = "docker.io" // the name of its images
	}
	image := host + "/" + repository
	all, err := p.read()
	if err != nil {
		return "", "", fmt.Errorf("image_credential_provider: %s", p.env.Redactor.String(err.Error()))
	}

	var failures []error
	for _, provider := range all {
		isOf := func(pattern string) bool { return matchesImage(pattern, image) }
		if !slices.ContainsFunc(provider.MatchImages, isOf) {
			continue
		}
		if provider.NeedsServiceAccount() {
			p.env.Say(fmt.Sprintf("credential provider %q needs the service account of a pod, and is left out",
				provider.Name))
			continue
		}

		user, password, err := p.ask(ctx, provider, image)
		if err == nil && password != "" {
			return user, password, nil
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("credential provider %q %s", provider.Name,
				p.env.Redactor.String(err.Error())))
		}
	}

	return "", "", errors.Join(failures...)
}

// read returns the plugins of the configuration, which names programs that root starts: only root may change it.
func (p providers) read() (all []kubelet.CredentialProvider, err error) {
	files, err := nodefile.Within(p.place.Config, func() ([]string, error) {
		return probe.ProviderFiles(p.place.Config), nil
	})
	if err != nil {
		return nil, err
	}

	for _, file := range files {
		if err := nodefile.CheckTrusted(file); err != nil {
			return nil, err
		}
		text, failed := nodefile.Root("").Text(file)
		if failed != nil {
			return nil, failed
		}
		found, err := kubelet.ReadCredentialProviders(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, found...)
	}

	return all, nil
}

// ask runs a plugin, and returns its login for an image; no password if it has none. An error has none of its output:
// stderr is not read.
// Source: k8s.io/kubelet, pkg/apis/credentialprovider/v1, types.go.
func (p providers) ask(ctx context.Context, c kubelet.CredentialProvider, image string) (user, pass string, err error) {
	if c.Name != filepath.Base(c.Name) || !filepath.IsLocal(c.Name) {
		return "", "", errors.New("is not the name of a file")
	}
	request, err := json.Marshal(map[string]string{
		"kind": "CredentialProviderRequest", "apiVersion": c.APIVersion, "image": image,
	})
	if err != nil {
		return "", "", err
	}
	plugin := probe.Plugin{
		Command: filepath.Join(p.place.BinDir, c.Name),
		Args:    c.Args,
		Stdin:   request,
		Timeout: providerTimeout,
	}
	for _, e := range c.Env {
		plugin.Env = append(plugin.Env, e.Name+"="+e.Value)
	}

	output, err := plugin.Run(ctx)
	if err != nil {
		return "", "", err
	}
	var response struct {
		Kind, APIVersion string
		Auth             map[string]login
	}
	err = json.Unmarshal(output, &response)
	for _, each := range response.Auth {
		p.env.Redactor.Add([]byte(each.Password))
	}
	if err != nil || response.Kind != "CredentialProviderResponse" || response.APIVersion != c.APIVersion {
		return "", "", fmt.Errorf("returns something other than a CredentialProviderResponse of %q", c.APIVersion)
	}
	found := findLogin(response.Auth, image)

	return found.Username, found.Password, nil
}

// login is the AuthConfig of a response.
type login struct{ Username, Password string }

// findLogin returns the login of the longest key that matches an image: one of another registry is never sent to this
// one. Source: pkg/credentialprovider/keyring.go, Add and Lookup.
func findLogin(all map[string]login, image string) (found login) {
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(all))) {
		pattern := strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
		host, folder, _ := strings.Cut(pattern, "/")
		if strings.HasPrefix(folder, "v1/") || strings.HasPrefix(folder, "v2/") {
			pattern = host + folder[len("v1"):]
		}
		if all[key].Password != "" && matchesImage(strings.TrimSuffix(pattern, "/"), image) {
			return all[key]
		}
	}

	return login{}
}

// matchesImage reports whether a pattern of matchImages is one of an image: * is a part of one label of the host, the
// port is the same, and the path of the pattern is a prefix, of whole names: the kubelet would also give the login of
// r/a to r/ab. Source: pkg/credentialprovider/keyring.go, URLsMatch.
func matchesImage(pattern, image string) bool {
	wantHost, wantPath, _ := strings.Cut(pattern, "/")
	host, folder, _ := strings.Cut(image, "/")
	want, wantPort := splitHost(wantHost)
	got, port := splitHost(host)
	isBelow := wantPath == "" || strings.HasPrefix(folder+"/", strings.TrimSuffix(wantPath, "/")+"/")
	if wantPort != port || len(want) != len(got) || !isBelow {
		return false
	}
	for i, label := range want {
		if ok, err := path.Match(label, got[i]); !ok || err != nil {
			return false
		}
	}

	return true
}

func splitHost(host string) (labels []string, port string) {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, ""
	}

	return strings.Split(name, "."), port
}
