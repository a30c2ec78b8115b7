package doctor

import (
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// maxKernelConfig is the highest number of bytes of a kernel's configuration, packed or not; Debian's has 280 KB.
const maxKernelConfig = 1 << 20

// maxKernels is the highest number of kernels of an image that are looked at.
const maxKernels = 20

// ReadKernels returns by release the options that kernels were built with, also as modules: of the running kernel or,
// for an image that does not run, of each kernel with modules. A kernel without a complete configuration that can be
// read is left out. It loads no module for that.
func ReadKernels(root nodefile.Root, isRunning bool) map[string]map[string]bool {
	releases, _ := root.Names("/lib/modules", maxKernels)
	if isRunning {
		releases = []string{strings.TrimSpace(root.TextIfReadable("/proc/sys/kernel/osrelease"))}
	}

	kernels := map[string]map[string]bool{}
	for _, release := range releases {
		if options := readKernel(root, release, isRunning); options != nil {
			kernels[release] = options
		}
	}

	return kernels
}

func readKernel(root nodefile.Root, release string, isRunning bool) map[string]bool {
	files := []string{
		"/proc/config.gz", "/boot/config-" + release, "/lib/modules/" + release + "/config",
		"/usr/lib/ostree-boot/config-" + release, "/usr/lib/kernel/config-" + release,
	}
	if !isRunning {
		files = files[1:] // a mounted /proc has the kernel of another machine
	}
	for _, name := range files {
		text, err := root.ReadFile(name, maxKernelConfig)
		if err == nil && filepath.Ext(name) == ".gz" {
			text, err = gunzip(text)
		}
		if err != nil {
			continue
		}

		options := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			option, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if strings.HasPrefix(option, "CONFIG_") && (value == "y" || value == "m") {
				options[option] = true
			}
		}
		if len(options) > 0 {
			return options
		}
	}

	return nil
}

// gunzip returns the text of a packed configuration.
func gunzip(packed []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxKernelConfig+1))
	if len(text) > maxKernelConfig {
		return nil, io.ErrShortBuffer
	}

	return text, err
}
