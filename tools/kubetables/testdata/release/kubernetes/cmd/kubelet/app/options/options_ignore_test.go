package options

func y() { fs.Bool("tested", false, "") }
