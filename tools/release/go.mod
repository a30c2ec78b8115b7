module github.com/prelet/prelet/tools/release

go 1.26.0

require (
	github.com/google/licensecheck v0.3.1
	github.com/spdx/tools-golang v0.5.5
	golang.org/x/mod v0.30.0
)

require github.com/anchore/go-struct-converter v0.0.0-20221118182256-c68fdcfa2092 // indirect
