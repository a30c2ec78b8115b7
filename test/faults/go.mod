module github.com/prelet/prelet/test/faults

go 1.26.0

require (
	github.com/prelet/prelet v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.49.0
)

replace github.com/prelet/prelet => ../..

replace github.com/prelet/prelet/plugins => ../../plugins
