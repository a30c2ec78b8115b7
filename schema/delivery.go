package schema

import (
	"fmt"
	"path"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/prelet/prelet/internal/model/texts"
)

// Delivery is a delivery block. All of its arguments are literals, so that it is read without the machine.
type Delivery struct {
	From          []string // references, in the order in which they are tried
	Name, Ring    string   // that the pulled site must have; a name of "" is any
	Alone         bool     // the other layers are enough without a usable pulled site
	CAFile, Proxy string   // "" for none
	Apply         bool     // a check between boots applies a new site; otherwise it waits for the next run

	Provider CredentialProvider
}

const providerBlock = "image_credential_provider"

// CredentialProvider is where the kubelet's image credential providers are; "" for none.
type CredentialProvider struct{ Config, BinDir string }

// ReadDelivery returns the arguments of a checked delivery block. The body may be nil.
func ReadDelivery(body *hclsyntax.Body) Delivery {
	var provider *hclsyntax.Body
	if body != nil {
		for _, b := range body.Blocks {
			if b.Type == providerBlock {
				provider = b.Body
			}
		}
	}

	return Delivery{
		From:   literal(body, DeliveryFrom),
		Name:   literal(body, DeliveryName),
		Ring:   literal(body, DeliveryRing),
		Alone:  literal(body, DeliveryAlone),
		CAFile: literal(body, DeliveryCAFile),
		Proxy:  literal(body, DeliveryProxy),
		Apply:  literal(body, DeliveryApply),
		Provider: CredentialProvider{
			Config: literal(provider, ProviderConfig),
			BinDir: literal(provider, ProviderBinDir),
		},
	}
}

// literal returns the value of an argument of literals, or its default, also if the loader has refused the value.
func literal[T any](body *hclsyntax.Body, a Attr[T]) (out T) {
	s := a.Spec()
	v := s.Default
	if body != nil && body.Attributes[a.Name] != nil {
		written, diags := body.Attributes[a.Name].Expr.Value(nil)
		converted, err := convert.Convert(written, s.Type)
		if !diags.HasErrors() && err == nil && !converted.IsNull() && s.CheckValue(converted) == nil {
			v = converted
		}
	}
	if isFillable(v) {
		_ = fill(v, &out) // a list with a null has no value
	}

	return out
}

// registryReference matches a reference to a registry: a host, a repository, and a tag or a digest.
var registryReference = texts.LazyRegexp(
	`^(oci://)?[A-Za-z0-9.\[\]:-]+(/[a-z0-9]+([._-]+[a-z0-9]+)*)+` +
		`(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|@sha256:[0-9a-f]{64})$`)

func checkReferences(l []string) error {
	if len(l) == 0 {
		return fmt.Errorf("at least one reference is needed, as \"registry.example.com/sites/gpu:stable\"")
	}
	for _, s := range l {
		if folder, isLayout := strings.CutPrefix(s, "oci-layout:"); isLayout && path.IsAbs(folder) {
			continue
		}
		if !registryReference().MatchString(s) {
			return fmt.Errorf("invalid reference %q: write HOST/REPOSITORY:TAG, HOST/REPOSITORY@sha256:DIGEST or "+
				"oci-layout:/PATH", s)
		}
	}

	return nil
}
