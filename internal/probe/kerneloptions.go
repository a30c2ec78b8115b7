package probe

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

// ReadKernelOptions returns the options that the kernel was built with, also as modules. It returns nil if no complete
// configuration of this kernel can be read. It loads no module for that.
func ReadKernelOptions(root nodefile.Root) map[string]bool {
	release := strings.TrimSpace(root.TextIfReadable("/proc/sys/kernel/osrelease"))
	for _, name := range []string{
		"/proc/config.gz", "/boot/config-" + release, "/lib/modules/" + release + "/config",
		"/usr/lib/ostree-boot/config-" + release, "/usr/lib/kernel/config-" + release,
	} {
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
