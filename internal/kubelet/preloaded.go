package kubelet

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ImageRecords are folders of a kubelet with its records of image pulls: those that it completed, by image ID, and
// those that it began, by name. Source: pkg/kubelet/images/pullmanager/fs_pullrecords.go.
const (
	PulledImages  = "/var/lib/kubelet/image_manager/pulled"
	PullingImages = "/var/lib/kubelet/image_manager/pulling"
)

// ImageRecordFile returns the name of the file with the record of an image, by the ID of a pulled image or the name of
// an image that is being pulled.
func ImageRecordFile(image string) string {
	return fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(image)))
}

// PolicyOfImages is a kubelet's imagePullCredentialsVerificationPolicy. Of an image that the policy verifies, and that
// a pod may not use by a record, the kubelet asks the registry: offline, or with imagePullPolicy Never, the pod does
// not start although the image is there.
type PolicyOfImages struct {
	Policy    string   // NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify
	Allowlist []string // preloadedImagesVerificationAllowlist
}

// ImageRecord is a kubelet's record of an image; nil bytes: no record.
type ImageRecord struct {
	Pulled  []byte // the record of its ID
	Pulling []byte // the record of its name
}

// Refuses returns why a pod without credentials of its own gets a preloaded image only from the registry; "": it gets
// the image. id is the runtime's, and name one of its names. Source:
// pkg/kubelet/images/pullmanager/image_pull_manager.go, MustAttemptImagePull.
func (p PolicyOfImages) Refuses(id, name string, r ImageRecord) string {
	pulled, err := parsePulledRecord(r.Pulled)
	if err != nil { // whatever the policy is
		return "its record " + PulledImages + "/" + ImageRecordFile(id) + " cannot be read: " + err.Error()
	}
	hasRecord := r.Pulled != nil && pulled.ImageRef == id
	isByKubelet := hasRecord || r.Pulling != nil
	switch {
	case p.Policy == "NeverVerify":
		return ""
	case p.Policy == "NeverVerifyPreloadedImages" && !isByKubelet:
		return ""
	case p.Policy == "NeverVerifyAllowlistedImages" && p.allows(name):
		return ""
	case hasRecord && pulled.CredentialMapping[trimImageName(name)].NodePodsAccessible:
		return ""
	}

	switch {
	case !isByKubelet && p.Policy == "AlwaysVerify":
		return "imagePullCredentialsVerificationPolicy is AlwaysVerify"
	case !isByKubelet:
		return "preloadedImagesVerificationAllowlist does not have it"
	case hasRecord:
		return "a kubelet has pulled it before, with credentials that other pods lack: " +
			PulledImages + "/" + ImageRecordFile(id)
	}

	return "a kubelet began to pull it, and has noted no credentials: " + PullingImages + "/" + ImageRecordFile(name)
}

// allows reports whether the list has a name, or a prefix of it. The kubelet compares the name that a pod gives:
// "nginx" where the runtime has "docker.io/library/nginx". Source: image_pull_policies.go, imageMatches.
func (p PolicyOfImages) allows(name string) bool {
	name = trimImageName(name)
	names := []string{name, familiarName(name)}

	return slices.ContainsFunc(p.Allowlist, func(pattern string) bool {
		prefix, isPrefix := strings.CutSuffix(pattern, "*")

		return slices.ContainsFunc(names, func(name string) bool {
			return name == pattern || isPrefix && strings.HasPrefix(name, prefix)
		})
	})
}

// pulledRecord has the fields of an ImagePulledRecord (kubelet.config.k8s.io) that are read.
type pulledRecord struct {
	Kind              string
	ImageRef          string
	CredentialMapping map[string]struct{ NodePodsAccessible bool }
}

func parsePulledRecord(text []byte) (r pulledRecord, err error) {
	if text == nil {
		return r, nil
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, errors.New("it is not a JSON object")
	}
	if r.Kind != "ImagePulledRecord" {
		return r, fmt.Errorf("its kind is %q", r.Kind)
	}

	return r, nil
}
