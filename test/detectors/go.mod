module github.com/prelet/prelet/test/detectors

go 1.26.0

require (
	github.com/prelet/prelet v0.0.0-00010101000000-000000000000
	github.com/prelet/prelet/plugins v0.0.0
)

replace github.com/prelet/prelet => ../..

replace github.com/prelet/prelet/plugins => ../../plugins
