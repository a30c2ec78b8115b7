package functions

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/prelet/prelet/internal/model/texts"
)

// maxFeatures is the size, in bytes, of the largest feature file that NFD reads.
// Source: node-feature-discovery, source/local/local.go, MaxFeatureFileSize.
const maxFeatures = 65536

// nfdFeaturesFunc makes a feature file of Node Feature Discovery: a line KEY=VALUE for each label, sorted by key, which
// it turns into labels of the node. NFD ignores a file that is too large, and drops invalid labels, so both are errors
// here.
func nfdFeaturesFunc() function.Function {
	return newFunction(
		"The text of a file for features.d of Node Feature Discovery, which makes these labels. "+
			"A null value makes none.",
		cty.String,
		func(args []cty.Value) (cty.Value, error) {
			if !args[0].IsWhollyKnown() {
				return unknownOf(cty.String), nil
			}

			var b strings.Builder
			b.WriteString("# Written by prelet: labels that Node Feature Discovery sets.\n")
			for it := args[0].ElementIterator(); it.Next(); {
				k, v := it.Element()
				if v.IsNull() {
					continue
				}
				key := k.AsString()
				if err := checkFeature(key, v.AsString()); err != nil {
					return refuseArg(0, "%s", err)
				}
				b.WriteString(key + "=" + v.AsString() + "\n")
			}
			if b.Len() > maxFeatures {
				return refuseArg(0, "the file would have %d bytes, and NFD reads at most %d", b.Len(), maxFeatures)
			}

			return cty.StringVal(b.String()), nil
		},
		parameter("labels", cty.Map(cty.String)),
	)
}

// checkFeature refuses what NFD's master would drop.
// Source: node-feature-discovery, pkg/apis/nfd/validate/validate.go.
func checkFeature(key, text string) error {
	if problems := content.IsLabelKey(key); len(problems) > 0 {
		return fmt.Errorf("invalid key %s: %s", texts.QuoteShort(key), strings.Join(problems, "; "))
	}
	if problems := content.IsLabelValue(text); len(problems) > 0 {
		return fmt.Errorf("invalid value %s of %s: %s; slug() turns any text into a valid value",
			texts.QuoteShort(text), key, strings.Join(problems, "; "))
	}

	domain, _, hasDomain := strings.Cut(key, "/")
	if !hasDomain {
		return fmt.Errorf("key %s has no domain: write example.com/%s or feature.node.kubernetes.io/%s", key, key, key)
	}
	isBelow := func(parent string) bool {
		return domain == parent || strings.HasSuffix(domain, "."+parent)
	}
	isNFDs := isBelow("feature.node.kubernetes.io") || isBelow("profile.node.kubernetes.io")
	if isBelow("kubernetes.io") && !isNFDs {
		return fmt.Errorf("NFD does not set label %s: inside kubernetes.io it sets labels of "+
			"feature.node.kubernetes.io and profile.node.kubernetes.io only; "+
			"use a domain of your own, or a label stage", key)
	}

	return nil
}
