package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// describe returns a program's version, and the size of it and of what it needs in addition to a minimal Debian.
func (b *bench) describe(ctx context.Context, name string) (version string, size int64, err error) {
	switch name {
	case floorName:
		size, err = sizeOf(filepath.Join(b.helpers, "floor"))
		return "", size, err
	case firstName, planName, againName:
		out, err := exec.CommandContext(ctx, b.prelet, "version").Output()
		words := strings.Fields(string(out))
		if err != nil || len(words) < 2 {
			return "", 0, fmt.Errorf("prelet version: got %q, %w", out, err)
		}
		size, err = sizeOf(b.prelet)
		return words[1], size, err
	case kubeadmName:
		size, err = sizeOf(filepath.Join(b.kube, b.server.Version, "kubeadm"))
		return b.server.Version, size, err
	case nodeadmName:
		return describeModule(b.nodeadmProgram())
	case nfdName:
		return describeModule(filepath.Join(b.peers, "nfd-worker"))
	case scriptName:
		_, size, err = b.describePackage("python3-yaml") // with pciutils
		script, scriptErr := sizeOf(script)
		return "", size + script, errors.Join(err, scriptErr)
	}

	return b.describePackage(name)
}

func sizeOf(file string) (int64, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}

	return info.Size(), nil
}

// describeModule reads the version that Go put into a program.
func describeModule(file string) (version string, size int64, err error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return "", 0, err
	}
	size, err = sizeOf(file)

	return info.Main.Version, size, err
}

// describePackage reads the line of a Debian package in the file of sizes, in KiB.
func (b *bench) describePackage(name string) (version string, size int64, err error) {
	file := filepath.Join(b.peers, "sizes")
	text, err := os.ReadFile(file)
	if err != nil {
		return "", 0, err
	}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == name {
			size, err = strconv.ParseInt(words[2], 10, 64)
			return words[1], size << 10, err
		}
	}

	return "", 0, fmt.Errorf("%s has no package %s: remove its folder and run tools/peers/build.sh again", file, name)
}
