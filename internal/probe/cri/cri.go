// Package cri reads the name, the version and the cgroup driver of a container runtime over its socket. Ask sends
// the two requests. The package must not start or change anything.
//
// A kubelet with KubeletCgroupDriverFromCRI, which is on since 1.31 and cannot be turned off since 1.34, takes its
// cgroup driver from the same response; an older one takes cgroupDriver from its configuration. The response matters
// for both, because pods do not start if the two drivers differ.
package cri

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxMessage limits each response and its headers, in bytes. Real responses have less than 200.
const maxMessage = 16 << 10

// maxImages limits the list of images, in bytes. An image has less than 1 KiB.
const maxImages = 4 << 20

// Runtime is a container runtime's own description. A missing field is "".
type Runtime struct {
	Name    string // containerd, cri-o
	Version string // 1.6.20~ds1, v2.0.1
	Driver  string // its cgroup driver, systemd or cgroupfs: from containerd 2.0 and CRI-O 1.28 on
	// NoConfig: it does not implement RuntimeConfig, so it cannot report its driver to a kubelet either.
	NoConfig bool
}

// Image is one image of a runtime.
type Image struct {
	ID    string
	Names []string // its tags, or its digests if it has none
}

// Images returns the images of the runtime at a socket.
func Images(ctx context.Context, socket string) ([]Image, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	list, err := call(ctx, connect(ctx, socket), "ImageService/ListImages", maxImages)
	if err != nil {
		return nil, err
	}

	return parseImages(list)
}

// Ask queries the runtime at a socket until ctx ends. After an error, the fields received before it are set.
func Ask(ctx context.Context, socket string) (Runtime, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	runtime := connect(ctx, socket)
	version, errVersion := call(ctx, runtime, "RuntimeService/Version", maxMessage)
	config, errConfig := call(ctx, runtime, "RuntimeService/RuntimeConfig", maxMessage)
	name, number, errName := parseVersion(version)
	driver, errDriver := parseConfig(config)

	return Runtime{
		Name:    keepPrintable(name),
		Version: keepPrintable(number),
		Driver:  driver,

		NoConfig: errVersion == nil && errors.Is(errConfig, errUnimplemented),
	}, errors.Join(errVersion, errName, errConfig, errDriver)
}

// The numbers of fields. Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto.

func parseVersion(message []byte) (name, version string, err error) {
	err = readFields(message, func(at field, content []byte, _ uint64) {
		switch at {
		case field{2, protowire.BytesType}:
			name = string(content)
		case field{3, protowire.BytesType}:
			version = string(content)
		}
	})

	return name, version, err
}

// parseConfig returns the kubelet's name of a cgroup driver, "" for an unknown or missing driver.
func parseConfig(message []byte) (driver string, err error) {
	names := map[uint64]string{0: "systemd", 1: "cgroupfs"}
	errFields := readFields(message, func(at field, linux []byte, _ uint64) {
		if at != (field{1, protowire.BytesType}) {
			return
		}
		driver = names[0]
		err = readFields(linux, func(at field, _ []byte, cgroups uint64) {
			if at == (field{1, protowire.VarintType}) {
				driver = names[cgroups]
			}
		})
	})

	return driver, errors.Join(errFields, err)
}

func parseImages(message []byte) (list []Image, err error) {
	errFields := readFields(message, func(at field, content []byte, _ uint64) {
		if at != (field{1, protowire.BytesType}) {
			return
		}
		image, errImage := parseImage(content)
		list = append(list, image)
		err = errors.Join(err, errImage)
	})

	return list, errors.Join(errFields, err)
}

func parseImage(message []byte) (image Image, err error) {
	var digests []string
	err = readFields(message, func(at field, content []byte, _ uint64) {
		text := strings.ToValidUTF8(string(content), "\uFFFD")
		switch at {
		case field{1, protowire.BytesType}:
			image.ID = text
		case field{2, protowire.BytesType}:
			image.Names = append(image.Names, text)
		case field{3, protowire.BytesType}:
			digests = append(digests, text)
		}
	})
	if len(image.Names) == 0 {
		image.Names = digests
	}

	return image, err
}

// field is where a message has a field of a kind. One of another kind is ignored, as one that is not known.
type field struct {
	number protowire.Number
	kind   protowire.Type
}

// readFields calls f with each field of a message, and its content or its value.
func readFields(message []byte, f func(at field, content []byte, value uint64)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]

		var content []byte
		var value uint64
		switch kind {
		case protowire.BytesType:
			content, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		f(field{number, kind}, content, value)
		message = message[n:]
	}

	return nil
}

// keepPrintable returns a short text of visible ASCII characters, and "" for any other text: messages show it on a
// terminal.
func keepPrintable(s string) string {
	if len(s) > 64 {
		return ""
	}

	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return ""
		}
	}

	return s
}
