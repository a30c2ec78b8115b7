package doctor

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/boot"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/kubelet/rules"
	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe/kubeletstate"
)

// Images are the images of the runtime that the kubelet gives to no pod without credentials of its own.
type Images struct {
	Policy  string // imagePullCredentialsVerificationPolicy; "": nothing was looked for
	Err     error  // of the runtime, or of reading the kubelet's records
	Count   int    // of all images
	Refused []Image
}

// Image is one of them.
type Image struct{ Name, Why string }

const maxImageRecord = 1 << 20 // bytes of a kubelet's record of one image

// imagePolicy returns how the planned kubelet verifies credentials for images that the runtime has. ok is false for one
// that verifies none, and where that is not known. Source: pkg/kubelet/apis/config/v1beta1/defaults.go.
func imagePolicy(p *boot.Plan) (policy kubelet.PolicyOfImages, ok bool) {
	if p == nil || p.Node.Effective == nil || p.Kubelet.Version == nil {
		return policy, false
	}
	config := kubelet.NewConfig()
	if config.Merge(p.Node.Effective) != nil {
		return policy, false
	}
	subject := rules.Subject{Config: config, Version: *p.Kubelet.Version}
	if isOn, isKnown := rules.IsGateOn(subject, "KubeletEnsureSecretPulledImages"); !isOn || !isKnown {
		return policy, false
	}

	text, _ := p.Node.Effective["imagePullCredentialsVerificationPolicy"].(string)
	policy.Policy = cmp.Or(text, "NeverVerifyPreloadedImages")
	list, _ := p.Node.Effective["preloadedImagesVerificationAllowlist"].([]any)
	for _, v := range list {
		if pattern, isText := v.(string); isText {
			policy.Allowlist = append(policy.Allowlist, pattern)
		}
	}

	return policy, true
}

// FindRefusedImages returns the images of the runtime that the planned kubelet gives to no pod without credentials.
func FindRefusedImages(
	ctx context.Context,
	root nodefile.Root,
	p *boot.Plan,
) (out Images) {
	policy, ok := imagePolicy(p)
	if !ok {
		return out
	}
	endpoint, _ := p.Node.Effective["imageServiceEndpoint"].(string)
	if endpoint == "" && p.Kubelet.Runtime != nil {
		endpoint = p.Kubelet.Runtime.Endpoint
	}
	if !strings.HasPrefix(strings.TrimPrefix(endpoint, "unix://"), "/") {
		return out
	}

	images, err := kubeletstate.Images(ctx, endpoint)
	if err != nil {
		return Images{Policy: policy.Policy, Err: err}
	}

	return compareImages(root, policy, images)
}

// compareImages compares images with the kubelet's records below a root.
func compareImages(root nodefile.Root, policy kubelet.PolicyOfImages, images []kubeletstate.Image) Images {
	out := Images{Policy: policy.Policy, Count: len(images)}
	for _, image := range images {
		pulled, err := readRecord(root, kubelet.PulledImages, image.ID)
		if err != nil {
			out.Err = err
			return out
		}
		for _, name := range image.Names {
			if isSandboxImage(name) {
				continue
			}
			pulling, err := readRecord(root, kubelet.PullingImages, name)
			if err != nil {
				out.Err = err
				return out
			}
			record := kubelet.ImageRecord{Pulled: pulled, Pulling: pulling}
			if why := policy.Refuses(image.ID, name, record); why != "" {
				out.Refused = append(out.Refused, Image{Name: name, Why: why})
			}
		}
	}
	slices.SortStableFunc(out.Refused, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })

	return out
}

// isSandboxImage reports whether the runtime uses an image itself, for the sandboxes of pods: pause or pause-amd64,
// with a tag. The kubelet does not verify it.
func isSandboxImage(name string) bool {
	base, _, _ := strings.Cut(path.Base(name), ":")
	base, arch, _ := strings.Cut(base, "-")

	return base == "pause" && slices.Contains([]string{"", "amd64", "arm64", "ppc64le", "s390x"}, arch)
}

// readRecord returns the record of an image in a folder, nil if there is none.
func readRecord(root nodefile.Root, folder, image string) ([]byte, error) {
	text, err := nodefile.ReadFile(root.Path(path.Join(folder, kubelet.ImageRecordFile(image))), maxImageRecord)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case text == nil:
		return []byte{}, nil
	}

	return text, nil
}
