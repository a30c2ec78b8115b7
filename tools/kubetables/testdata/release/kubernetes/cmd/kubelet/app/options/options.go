package options

import (
	"strings"

	"github.com/spf13/pflag"
)

const help = "help"

func (f *KubeletFlags) AddFlags(mainfs *pflag.FlagSet) {
	fs.StringVar(&f.Config, "config", f.Config, "the "+
		"file")
	fs.Var(&labels, "node-labels", "")
	fs.StringVar(&f.Mode, "network-plugin", "", "")
	fs.MarkDeprecated("network-plugin", "goes; soon")
	fs.StringVar(&f.Secret, "secret", "", "")
	fs.MarkHidden("secret")
	registerDeprecated(global, local, "log_cadvisor_usage", deprecated)
	strings.Join(f.Names, "no flag")
}

func AddKubeletConfigFlags(mainfs *pflag.FlagSet, c *KubeletConfiguration) {
	notDeprecated := map[string]bool{"log-split": true}
	fs.Int32Var(&c.MaxPods, "max-pods", c.MaxPods, "")
	fs.DurationVar(
		&c.Auth.Webhook.CacheTTL.Duration,
		"cache-ttl",
		c.Auth.Webhook.CacheTTL.Duration,
		"",
	)
	fs.StringVar((*string)(&c.Mode), "mode", string(c.Mode), "")
	logsapi.AddFlags(&c.Logging, fs)
}
