package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checker is the program with the conformance kit, in the folder of prelet-detect. No boot starts it.
const checker = "prelet-detector-check"

// Check runs the conformance kit on a program. It returns the kit's exit status: 0 passed, 1 failed, 64 wrong usage.
func (h *Host) Check(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	c := exec.CommandContext(ctx, filepath.Join(filepath.Dir(h.o.Helper), checker), args...)
	c.Stdout, c.Stderr = stdout, stderr
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() >= 0:
		return ended.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("%s: %w", checker, err)
	}
	return 0, nil
}

// Interpreters are the programs that a #! of a program names. They are not hashed; to describe such a program they must be
// allowed to run.
func Interpreters(program string) ([]string, error) {
	f, err := openProgram(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel looks at
	n, _ := f.ReadAt(head, 0)
	line, ok := strings.CutPrefix(string(head[:n]), "#!")
	if !ok {
		return nil, nil
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return nil, fmt.Errorf("%s: its #! names no program", program)
	}
	out := words[:1]
	if filepath.Base(words[0]) != "env" {
		return out, nil
	}
	for _, name := range words[1:] {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "-S"), "--split-string=")
		if name == "" || name[0] == '-' || strings.Contains(name, "=") { // an option of env, or a variable
			continue
		}
		for _, dir := range []string{"/usr/bin", "/bin"} { // the detector's PATH
			if p := filepath.Join(dir, name); filepath.IsAbs(name) {
				return append(out, name), nil
			} else if _, err := os.Stat(p); err == nil {
				return append(out, p), nil
			}
		}
		break
	}

	return out, nil
}
