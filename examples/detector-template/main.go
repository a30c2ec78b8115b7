// This program is a detector. prelet starts it; by hand it has the commands describe and detect.
package main

import "github.com/prelet/prelet/plugins/sdk"

// version is set when the program is linked.
var version = "0.0.0-dev"

func main() { sdk.Serve(detector{version}) }
