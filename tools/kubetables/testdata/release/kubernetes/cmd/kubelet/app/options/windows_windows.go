package options

func x() { fs.Bool("windows-service", false, "") }
