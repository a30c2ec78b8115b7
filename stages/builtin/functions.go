package builtin

import "github.com/prelet/prelet/schema"

func functions() []schema.Function { return nil }
