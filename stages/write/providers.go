package write

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	providersBlock = "credential_providers"
	providerBlock  = "provider"
	tokenBlock     = "token_attributes"

	providerConfigFlag = "image-credential-provider-config"
	providerFolderFlag = "image-credential-provider-bin-dir"
)

var (
	providersPath = schema.Attr[string]{
		Name:    "path",
		Default: "/etc/kubernetes/credential-providers.yaml",
		Check:   checkKubeletPath,
		Doc:     "Where the CredentialProviderConfig is written.",
	}
	providersFolder = schema.Attr[string]{
		Name:     "bin_dir",
		Required: true,
		Check:    checkProgramFolder,
		Doc:      "The folder with the plugins, `--image-credential-provider-bin-dir`.",
	}

	providerImages = schema.Attr[[]string]{
		Name:     "match_images",
		Required: true,
		Check:    checkImages,
		Doc: "The images that the plugin gets credentials for, as `*.dkr.ecr.*.amazonaws.com` or " +
			"`registry.example:8080/team`. `*` is one part of the host name.",
	}
	providerCache = schema.Attr[string]{
		Name:     "default_cache_duration",
		Required: true,
		Check:    checkCacheDuration,
		Doc:      "How long credentials are kept if the plugin does not return a time; `0s`: not at all.",
	}
	providerAPI = schema.Attr[string]{
		Name:    "api_version",
		Default: kubelet.CredentialProviderAPI,
		OneOf:   kubelet.CredentialProviderAPIs(),
		Doc:     "The version of requests that the plugin takes.",
	}
	providerArgs = schema.Attr[[]string]{
		Name: "args",
		Doc:  "Its arguments.",
	}
	providerEnv = schema.Attr[map[string]string]{
		Name: "env",
		Doc: "Variables that its environment has in addition to the kubelet's. Every user of the node can read " +
			"the file, so no secret can be here.",
	}

	tokenAudience = schema.Attr[string]{
		Name:     "service_account_token_audience",
		Required: true,
		Check:    checkNotEmpty,
		Doc:      "The audience of the token.",
	}
	tokenCache = schema.Attr[string]{
		Name:     "cache_type",
		Required: true,
		OneOf:    []string{"ServiceAccount", "Token"},
		Doc:      "Whether credentials are kept for a service account, or for one token.",
	}
	tokenRequired = schema.Attr[bool]{
		Name:     "require_service_account",
		Required: true,
		Doc:      "Whether the plugin is called for pods with a service account only. Static pods have none.",
	}
	tokenRequiredKeys = schema.Attr[[]string]{
		Name:  "required_service_account_annotation_keys",
		Check: checkAnnotationKeys,
		Doc:   "Annotations of the service account that the plugin gets, and without which it is not called.",
	}
	tokenOptionalKeys = schema.Attr[[]string]{
		Name:  "optional_service_account_annotation_keys",
		Check: checkAnnotationKeys,
		Doc:   "Annotations that it gets if the service account has them.",
	}
)

// declareProviders returns the block for plugins that get credentials for images.
func declareProviders() schema.Block {
	token := schema.Block{
		Type: tokenBlock,
		Max:  1,
		Doc:  "With this block the plugin gets a token of the pod's service account. Kubelets from 1.34 on have it.",
		Fields: []schema.Field{
			tokenAudience, tokenCache, tokenRequired, tokenRequiredKeys, tokenOptionalKeys,
		},
	}

	return schema.Block{
		Type:    providersBlock,
		Max:     1,
		ForEach: true,
		Doc: "Plugins that get credentials for images from a cloud or a vault. " +
			"Writes a CredentialProviderConfig, and sets `--image-credential-provider-config` and " +
			"`--image-credential-provider-bin-dir`. A kubelet exits " +
			"if a plugin is missing or cannot be executed, so `plan` and `run` report that on the node. " +
			"See [images](../how-to/images.md).",
		Fields: []schema.Field{providersPath, providersFolder},
		Blocks: []schema.Block{{
			Type:    providerBlock,
			Labels:  []string{"name"},
			ForEach: true,
			Doc:     "A plugin; its name is that of its program in `bin_dir`. The first one that matches counts first.",
			Fields:  []schema.Field{providerImages, providerCache, providerAPI, providerArgs, providerEnv},
			Blocks:  []schema.Block{token},
		}},
	}
}

// addProviderFlags adds the two flags of the kubelet.
func (a *adder) addProviderFlags(b schema.Body, hasFlags bool) {
	file := providersPath.Of(b)
	folder := providersFolder.Of(b)
	if b.Undecided || !areKnown(file.Cty, folder.Cty) {
		a.areFlagsUnread = a.areFlagsUnread || len(b.Unread()) > 0
		a.whole = false
		return
	}
	if !hasFlags {
		a.fail(
			fault.Conflict, b.Range, "The plugins need flags of the kubelet",
			"%s sets --%s and --%s, and kubelet_flags is left out (when = false).",
			providersBlock, providerConfigFlag, providerFolderFlag,
		)
		return
	}

	for _, f := range []struct {
		name  string
		value schema.Value[string]
	}{{providerConfigFlag, file}, {providerFolderFlag, folder}} {
		if own, ok := node.FindFlag(a.Flags, f.name); ok {
			a.fail(
				fault.Conflict, findPlace(own.Origins, b.Range), "Two values for --"+f.name,
				"%s sets it too, at %s. Remove one of them.", providersBlock, formatPlace(b.Range),
			)
			continue
		}
		from := f.value.Origins()
		if len(from) == 0 {
			from = place(a.in.Address, b.Range)
		}
		a.appendFlag(f.name, f.value.V, from)
	}
}

func findPlace(from []origin.Origin, other hcl.Range) hcl.Range {
	if len(from) > 0 && from[0].Range.Filename != "" {
		return from[0].Range
	}

	return other
}

func formatPlace(at hcl.Range) string {
	return fmt.Sprintf("%s:%d:%d", at.Filename, at.Start.Line, at.Start.Column)
}

// renderProviders renders the CredentialProviderConfig.
func (r *renderer) renderProviders(b schema.Body, n node.Node) {
	r.checkProviders(b, n)
	if r.isSkipped(b) || !b.Known() {
		r.whole = false
		return
	}

	var all []kubelet.CredentialProvider
	for _, p := range b.Blocks[providerBlock] {
		all = append(all, makeProvider(p))
	}
	if r.diags.HasErrors() {
		return
	}
	text, err := kubelet.FormatCredentialProviders(all)
	if err != nil {
		r.fail(fault.Internal, b.Range, "The configuration of the plugins cannot be written", "%s.", err)
		return
	}
	r.add(b, node.File{
		Path:    providersPath.Of(b).V,
		Kind:    node.Regular,
		Text:    value.PlainText(text),
		Mode:    0o644,
		Purpose: "credential-providers",
		Origins: place(r.in.Address, b.Range),
	})
}

func makeProvider(b schema.Body) kubelet.CredentialProvider {
	out := kubelet.CredentialProvider{
		Name:                 b.Labels[0],
		MatchImages:          providerImages.Of(b).V,
		DefaultCacheDuration: providerCache.Of(b).V,
		APIVersion:           providerAPI.Of(b).V,
		Args:                 providerArgs.Of(b).V,
	}
	env := providerEnv.Of(b).V
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out.Env = append(out.Env, kubelet.EnvironmentPair{Name: name, Value: env[name]})
	}
	if t, ok := b.One(tokenBlock); ok {
		out.TokenAttributes = &kubelet.TokenAttributes{
			Audience:              tokenAudience.Of(t).V,
			CacheType:             tokenCache.Of(t).V,
			RequireServiceAccount: tokenRequired.Of(t).V,
			RequiredAnnotations:   tokenRequiredKeys.Of(t).V,
			OptionalAnnotations:   tokenOptionalKeys.Of(t).V,
		}
	}

	return out
}

// checkProviders reports with what a kubelet exits. Source: pkg/credentialprovider/plugin/config.go,
// validateCredentialProviderConfig.
func (r *renderer) checkProviders(b schema.Body, n node.Node) {
	first := map[string]hcl.Range{}
	providers := b.Blocks[providerBlock]
	if len(providers) == 0 {
		r.fail(
			fault.MissingArgument, b.Range, "No plugin",
			"A kubelet exits without a plugin in its configuration. Add provider \"NAME\" { … }, "+
				"or leave the block out: %s { when = … }.", providersBlock,
		)
	}
	if r.isOlderKubelet(26) {
		r.fail(
			fault.ConfigInvalid, b.Range, "The kubelet is too old for "+providersBlock,
			"Kubelets before 1.26 do not read kubelet.config.k8s.io/v1, and this one is %s. Write the file with a "+
				"file block, and set both flags in kubelet_flags.", *r.in.Kubelet.Version,
		)
	}

	for _, p := range providers {
		name := p.Labels[0]
		if why := refuseProviderName(name); why != "" {
			r.fail(fault.WrongType, p.Range, "Not a name of a plugin", "%q %s.", name, why)
		}
		if at, ok := first[name]; ok {
			r.fail(
				fault.Conflict, p.Range, "Two plugins with the name "+name,
				"The first is at %s. Write all images into match_images of one of them.", formatPlace(at),
			)
		}
		first[name] = p.Range
		r.warnImages(providerImages.Of(p))
		if t, ok := p.One(tokenBlock); ok {
			r.checkToken(p, t, n)
		}
	}
}

func refuseProviderName(name string) string {
	switch {
	case name == "", name == ".", name == "..":
		return "is not a file"
	case strings.ContainsAny(name, "/ "):
		return "contains a slash or a space"
	}

	return ""
}

const tokenGate = "KubeletServiceAccountTokenForCredentialProviders"

// checkToken checks the attributes of a token against the kubelet, and against each other.
func (r *renderer) checkToken(provider, b schema.Body, n node.Node) {
	const summary = "The kubelet would not start with token_attributes"
	isOn, isGateKnown := stages.IsGateOn(n, r.in.Kubelet.Version, tokenGate)
	required := tokenRequiredKeys.Of(b)
	optional := tokenOptionalKeys.Of(b)
	api := providerAPI.Of(provider)

	switch {
	case r.isOlderKubelet(34):
		r.fail(fault.ConfigInvalid, b.Range, summary,
			"Kubelets from 1.34 on know them, and this one is %s. Remove the block.", *r.in.Kubelet.Version)
	case isGateKnown && !isOn:
		r.fail(fault.KubeletGate, b.Range, summary,
			"The feature gate %s is off. Set it to true, or remove this block.", tokenGate)
	case api.Set() && api.V != kubelet.CredentialProviderAPI:
		r.fail(fault.ConfigInvalid, api.Range, summary,
			"Only plugins of %s can get a token.", kubelet.CredentialProviderAPI)
	}

	if need := tokenRequired.Of(b); need.Set() && !need.V && len(required.V) > 0 {
		r.fail(fault.ConfigInvalid, required.Range, summary,
			"Annotations cannot be required where require_service_account is false.")
	}
	for i, key := range optional.V {
		if slices.Contains(required.V, key) {
			r.fail(fault.ConfigInvalid, optional.ElementRange(i), summary,
				"The annotation %s is required and optional. Remove it from one of the lists.", key)
		}
	}
}

// isOlderKubelet reports whether the kubelet is certainly older than a minor version.
func (r *renderer) isOlderKubelet(minor int) bool {
	return r.in.Kubelet.Version != nil && isOlderThan(*r.in.Kubelet.Version, minor)
}

// checkProgramFolder checks a folder that prelet only names.
func checkProgramFolder(s string) error {
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("%q is not an absolute path", s)
	}

	return nil
}

func checkNotEmpty(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}

	return nil
}

// checkImages checks patterns of images. Source: pkg/credentialprovider/keyring.go, ParseSchemelessURL.
func checkImages(patterns []string) error {
	if len(patterns) == 0 {
		return errors.New("a plugin needs at least one image")
	}
	for _, p := range patterns {
		if _, err := url.Parse("https://" + p); err != nil {
			return fmt.Errorf("%q is not an image: %w", p, errors.Unwrap(err))
		}
	}

	return nil
}

// warnImages warns of patterns that match no image.
func (r *renderer) warnImages(v schema.Value[[]string]) {
	for i, pattern := range v.V {
		parsed, err := url.Parse("https://" + pattern)
		_, rest, hasScheme := strings.Cut(pattern, "://")
		switch {
		case hasScheme:
			r.warn(fault.ConfigInvalid, v.ElementRange(i), "No image matches this pattern",
				"%q begins with a scheme. Write %q.", pattern, rest)
		case err == nil && parsed.Host == "":
			r.warn(fault.ConfigInvalid, v.ElementRange(i), "No image matches this pattern",
				"%q has no host name. Write it as registry.example/team.", pattern)
		}
	}
}

func checkCacheDuration(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("invalid duration %q; write it as 12h, 10m or 0s", s)
	}

	return nil
}

// checkAnnotationKeys checks names of annotations, in which case does not matter.
func checkAnnotationKeys(keys []string) error {
	for i, key := range keys {
		if err := kubelet.CheckLabelKey(strings.ToLower(key)); err != nil {
			return err
		}
		if slices.Contains(keys[:i], key) {
			return fmt.Errorf("%q is in the list twice", key)
		}
	}

	return nil
}
