package sdk_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	plugin "github.com/hashicorp/go-plugin"

	"github.com/prelet/prelet/plugins/protocol"
)

// TestGoPlugin: what Serve says is what go-plugin's own host understands, from the handshake to the shutdown.
func TestGoPlugin(t *testing.T) {
	program, err := os.Executable()
	must(t, err)
	start := func(version int) (*plugin.Client, plugin.ClientProtocol, error) {
		c := plugin.NewClient(&plugin.ClientConfig{
			HandshakeConfig:  protocol.Handshake(),
			VersionedPlugins: map[int]plugin.PluginSet{version: {protocol.Name: protocol.Plugin{}}},
			Cmd:              exec.Command(program, asToy), SkipHostEnv: true,
			AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC}, Logger: hclog.NewNullLogger(),
		})
		t.Cleanup(c.Kill)
		p, err := c.Client()
		return c, p, err
	}
	c, p, err := start(protocol.Version)
	must(t, err)
	if err := p.Ping(); err != nil {
		t.Error(err)
	}
	one, err := p.Dispense(protocol.Name)
	must(t, err)
	d, err := one.(protocol.Client).Describe(t.Context())
	if err != nil || d.Name != "toy" {
		t.Errorf("Describe: got %+v, %v, want toy", d, err)
	}
	if err := p.Close(); err != nil { // which asks it to end
		t.Error(err)
	}
	c.Kill()
	if !c.Exited() {
		t.Error("it has not ended")
	}
	if _, _, err := start(7); err == nil || !strings.Contains(err.Error(), "incompatible API version") {
		t.Errorf("host of another version: got %v, want an error about the version", err)
	}
}

// TestNoFolder: a detector that cannot listen fails and says why.
func TestNoFolder(t *testing.T) {
	program, err := os.Executable()
	must(t, err)

	c := exec.CommandContext(t.Context(), program, asToy)
	c.Env = protocol.Environment("/does/not/exist")
	out, err := c.CombinedOutput()

	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), "/does/not/exist") {
		t.Errorf("got %v and %q; want exit status 1 and the folder's name", err, out)
	}
}
