package builtin

import "github.com/prelet/prelet/schema"

func facts() []schema.Fact { return nil }

func outputDocs(string) []schema.Output { return nil }
