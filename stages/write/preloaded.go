package write

import (
	"maps"
	"slices"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
	"github.com/prelet/prelet/stages"
)

const (
	preloadedBlock = "preloaded_images"

	policyField = "imagePullCredentialsVerificationPolicy"
	imagesField = "preloadedImagesVerificationAllowlist"

	policyPreloaded = "NeverVerifyPreloadedImages"
	policyListed    = "NeverVerifyAllowlistedImages"

	pulledGate = "KubeletEnsureSecretPulledImages"
)

var (
	preloadedPolicy = schema.Attr[string]{
		Name:        "policy",
		OneOf:       []string{"NeverVerify", policyPreloaded, policyListed, "AlwaysVerify"},
		DefaultText: "with `images` `NeverVerifyAllowlistedImages`, else `NeverVerifyPreloadedImages`",
		Doc: "For which images on the disk a pod needs no credentials: `NeverVerify` all, " +
			"`NeverVerifyPreloadedImages` those that the kubelet has not pulled, " +
			"`NeverVerifyAllowlistedImages` those of `images`, `AlwaysVerify` none.",
	}
	preloadedImages = schema.Attr[[]string]{
		Name: "images",
		Doc: "Images that any pod may use without credentials, without tag and digest: `registry.example/team/tool`, " +
			"or all below a name: `registry.example/team/*`.",
	}
)

// declarePreloaded returns the block for images that are on the disk of the image.
func declarePreloaded() schema.Block {
	return schema.Block{
		Type:    preloadedBlock,
		Max:     1,
		ForEach: true,
		Doc: "Which pods may use the images on this node: from 1.35 on, a kubelet asks for the credentials of a pod " +
			"before the pod gets a private image that is already there. Sets `" + policyField + "` and `" +
			imagesField + "`. Older kubelets give every image to every pod, and the settings are left out, with a " +
			"note. See [images](../how-to/images.md#preloaded-images).",
		Fields: []schema.Field{preloadedPolicy, preloadedImages},
	}
}

// addPreloaded adds the settings for images on the disk.
func (a *adder) addPreloaded(b schema.Body, n node.Node, hasConfig bool) {
	policy := preloadedPolicy.Of(b)
	images := preloadedImages.Of(b)
	switch {
	case b.Undecided, !policy.Cty.IsKnown(), !images.Cty.IsWhollyKnown():
		a.isConfigUnread = a.isConfigUnread || len(b.Unread()) > 0
		a.whole = false
		return
	case !hasConfig:
		a.fail(
			fault.Conflict, b.Range, "The kubelet's configuration is not written",
			"%s sets fields of it, and kubelet_config is left out (when = false).", preloadedBlock,
		)
		return
	case policy.Set() && policy.V != policyListed && len(images.V) > 0:
		a.fail(
			fault.ConfigInvalid, policy.Range, "The kubelet would not start with this list of images",
			"images needs the policy %s, and this is %s. Remove one of them.", policyListed, policy.V,
		)
		return
	case a.isWithoutVerification(n):
		a.noteNotVerified(b, policy)
		return
	}

	chosen := policy.V
	switch {
	case policy.Set():
	case len(images.V) > 0:
		chosen = policyListed
	default:
		chosen = policyPreloaded
	}
	a.addField(b, policyField, chosen, policy.Origins())
	if len(images.V) > 0 {
		list := make([]any, len(images.V))
		for i, image := range images.V {
			list[i] = image
		}
		a.addField(b, imagesField, list, images.Origins())
	}
}

// addField adds a setting of the block, unless the patch has the field too.
func (a *adder) addField(b schema.Body, field string, v any, from []origin.Origin) {
	isField := func(s node.Setting) bool {
		return s.Path[0] == field
	}
	if i := slices.IndexFunc(a.Settings, isField); i >= 0 {
		a.fail(
			fault.Conflict, a.Settings[i].FindRange(b.Range), "Two values for "+field,
			"Block %s sets it too, at %s. Remove one of them.", b.Type, formatPlace(b.Range),
		)
		return
	}
	if len(from) == 0 {
		from = place(a.in.Address, b.Range)
	}
	a.Settings = append(a.Settings, node.Setting{Path: []string{field}, Value: v, Origins: from})
}

// isWithoutVerification reports whether the kubelet certainly does not verify credentials for images on the disk, so
// that it would not start with the settings. The gate is on from 1.35.
func (a *adder) isWithoutVerification(n node.Node) bool {
	version := a.in.Kubelet.Version
	if version == nil || !isOlderThan(*version, 35) {
		return false
	}

	// What this stage adds is not in the node yet.
	gates := map[string]any{}
	if set, isSet := n.Config["featureGates"].(map[string]any); isSet {
		maps.Copy(gates, set)
	}
	for _, s := range a.Settings {
		if len(s.Path) == 2 && s.Path[0] == "featureGates" && !s.Delete {
			gates[s.Path[1]] = s.Value
		}
	}
	n.Config = maps.Clone(n.Config)
	if n.Config == nil {
		n.Config = map[string]any{}
	}
	n.Config["featureGates"] = gates
	n.Flags = slices.Concat(n.Flags, a.Flags)
	isOn, isKnown := stages.IsGateOn(n, version, pulledGate)

	return isKnown && !isOn
}

// noteNotVerified reports that the settings are left out. A site that wants images to be verified gets a warning.
func (a *adder) noteNotVerified(b schema.Body, policy schema.Value[string]) {
	const detail = "This kubelet is %s, and kubelets before 1.35 give each image on the node to every pod " +
		"(without the feature gate %s). The settings are left out."
	report := a.note
	if policy.V == "AlwaysVerify" || len(preloadedImages.Of(b).V) > 0 {
		report = a.warn
	}
	report(fault.ConfigInvalid, b.Range, "The kubelet does not verify who may use an image", detail,
		*a.in.Kubelet.Version, pulledGate)
}
