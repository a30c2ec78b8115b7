package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/prelet/prelet/editors/prelet-ls/internal/server"
	"github.com/prelet/prelet/internal/buildversion"
)

// version is set by the build.
var version = "0.3.0+dev"

// delay is how long a text must not change before its site is validated: a pause in typing.
const delay = 300 * time.Millisecond

func main() {
	isVersion := flag.Bool("version", false, "print the version")
	isValidation := flag.Bool(validateFlag, false, "validate the site of a request on standard input, for the server")
	flag.Parse()
	version = buildversion.Or(version)
	if *isVersion {
		fmt.Println("prelet-ls", version)
		return
	}
	if *isValidation {
		answerValidation(os.Stdin, os.Stdout)
		return
	}
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "prelet-ls: an editor starts this program; it takes no arguments")
		os.Exit(64)
	}

	logger := log.New(os.Stderr, "prelet-ls: ", 0)
	s := server.New(server.SessionOptions{
		Version:  version,
		Delay:    delay,
		Log:      logger,
		Validate: validateInProcess,
	})
	if !s.Serve(context.Background(), os.Stdin, os.Stdout) {
		logger.Fatal("the session ended without shutdown and exit: the editor closed it, or sent an invalid message")
	}
}
