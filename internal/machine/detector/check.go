package detector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/prelet/prelet/plugins/contract"

	"github.com/prelet/prelet/internal/platform/nodefile"
)

// checker is the program with the conformance kit, in the folder of prelet-detect. A boot never starts it.
const checker = "prelet-detector-check"

// Check runs the conformance kit with arguments and returns its exit status: 0 passed, 1 failed, 64 wrong usage.
func (h *Host) Check(
	ctx context.Context,
	args []string,
	stdout, stderr io.Writer,
) (int, error) {
	program := filepath.Join(filepath.Dir(h.o.Helper), checker)
	c := exec.CommandContext(ctx, program, args...)
	c.Stdout = stdout
	c.Stderr = stderr
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	case err != nil:
		return 0, explainHelper(checker, err)
	}

	return 0, nil
}

// explainHelper explains why a program of prelet's own could not be started.
func explainHelper(name string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is neither in %s nor next to this program: install the package, or build it with "+
			"`make build`", name, filepath.Dir(DefaultHelper))
	}

	return fmt.Errorf("%s: %w", name, err)
}

// Interpreters returns the programs that the #! line of a script names. Their content is not hashed. The script can
// be described only if they are allowed to run.
func Interpreters(program string) ([]string, error) {
	f, err := openProgram(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	words, isScript := contract.Interpreter(f)
	if !isScript {
		return nil, nil
	}
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil, fmt.Errorf("%s: its #! line has no absolute path", program)
	}

	interpreters := words[:1]
	if filepath.Base(words[0]) == "env" {
		if p := findEnvProgram(words[1:]); p != "" {
			interpreters = append(interpreters, p)
		}
	}

	return interpreters, nil
}

// findEnvProgram returns the path of the program that env(1) would start, or nothing.
func findEnvProgram(args []string) string {
	for _, arg := range args {
		name := strings.TrimPrefix(strings.TrimPrefix(arg, "-S"), "--split-string=")
		isOption := name == "" || name[0] == '-'
		isVariable := strings.Contains(name, "=")
		if isOption || isVariable {
			continue
		}
		if filepath.IsAbs(name) {
			return name
		}

		for _, dir := range []string{"/usr/bin", "/bin"} { // the detector's PATH
			p := filepath.Join(dir, name)
			if _, err := nodefile.Stat(p); err == nil {
				return p
			}
		}
		break
	}

	return ""
}
