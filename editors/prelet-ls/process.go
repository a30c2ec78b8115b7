package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/prelet/prelet/editors/prelet-ls/internal/server"
)

const (
	validateFlag = "validate"
	// validateTime limits one validation. Its evaluation has limits of its own, of time and of memory.
	validateTime = 2 * time.Minute
)

// validateInProcess validates a site in a process of this program. HCL's evaluator cannot be stopped: an evaluation
// that reached a limit goes on, and ends only with its process.
func validateInProcess(ctx context.Context, r server.Request) (server.Validated, error) {
	ctx, cancel := context.WithTimeout(ctx, validateTime)
	defer cancel()

	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}

	child := exec.CommandContext(ctx, program, "-"+validateFlag)
	child.Stdin = bytes.NewReader(request)
	child.Stderr = os.Stderr
	answer, err := child.Output()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("it took more than %s", validateTime)
	}
	if err != nil {
		return nil, err
	}

	var found server.Validated

	return found, json.Unmarshal(answer, &found)
}

// answerValidation validates the site of a request, and writes the result.
func answerValidation(in io.Reader, out io.Writer) {
	var r server.Request
	err := json.NewDecoder(in).Decode(&r)
	if err == nil {
		err = json.NewEncoder(out).Encode(server.Validate(r))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prelet-ls:", err)
		os.Exit(1)
	}
}
