package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/prelet/prelet/bench/measure"
)

// startCluster starts bench/serve, which builds the machine too.
func startCluster(ctx context.Context, o options, machine string) (*measure.Server, error) {
	return measure.StartServer(ctx, []string{
		filepath.Join(o.helpers, "serve"),
		"-kubelet-config", o.kubelet,
		"-delay", o.delay.String(),
		"-spec", o.spec,
		"-machine", machine,
	})
}

// writeSite writes the site of a kubeadm worker, and the credential that it names.
func writeSite(base string, c *measure.Server) (site, credentials string, err error) {
	site, credentials = filepath.Join(base, "site.hcl"), filepath.Join(base, "credentials")
	if err := os.Mkdir(credentials, 0o700); err != nil {
		return "", "", err
	}
	tokenFile := filepath.Join(credentials, "bootstrap-token")
	if err := os.WriteFile(tokenFile, []byte(c.Token), 0o600); err != nil {
		return "", "", err
	}
	text := c.Site(measure.WorkerStages)

	return site, credentials, os.WriteFile(site, []byte(text), 0o600)
}

// hardwareFlag returns the flag that names the recorded machine, for a user who may not mount.
func hardwareFlag(machine string) []string {
	if os.Geteuid() == 0 {
		return nil
	}

	return []string{"--hardware", machine}
}
