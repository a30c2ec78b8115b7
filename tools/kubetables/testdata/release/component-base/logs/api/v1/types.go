package v1

type LoggingConfiguration struct {
	Format  string      `json:"format"`
	Options JSONOptions `json:"options"`
}

type JSONOptions struct {
	Routing `json:",inline"`
}

type Routing struct {
	Split bool `json:"splitStream"`
}

func AddFlags(c *LoggingConfiguration, fs *pflag.FlagSet) { addFlags(c, fs) }

func addFlags(c *LoggingConfiguration, fs flagSet) {
	fs.StringVar(&c.Format, "logging-format", c.Format, "")
	fs.BoolVar(&c.Options.Split, "log-split", false, "")
	fs.StringVar(&dir, "log-of-another-program", "", "")
}
