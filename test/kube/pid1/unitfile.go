package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// unitFile has the settings of a service that a kubelet's unit uses.
type unitFile struct {
	path        string
	environment []string          // KEY=VALUE
	files       []environmentFile // EnvironmentFile=
	exec        []string          // words of ExecStart=, variables not put in yet
	restart     string
	pause       time.Duration
	after       []string
}

// environmentFile is one, with whether a leading "-" lets it be missing. Its fields are those of the D-Bus property.
type environmentFile struct {
	Path     string
	Optional bool
}

// loadUnit reads a unit and its drop-ins where systemd looks for them, in the order in which it reads them
// (systemd.unit(5)): by name, whatever folder they are in.
func loadUnit(name string) (*unitFile, error) {
	u := &unitFile{restart: "no", pause: 100 * time.Millisecond}
	folders := []string{
		"/etc/systemd/system",
		"/run/systemd/system",
		"/usr/lib/systemd/system",
		"/lib/systemd/system",
	}
	for _, d := range folders {
		p := filepath.Join(d, name)
		if _, err := os.Stat(p); err == nil {
			u.path = p
			break
		}
	}
	if u.path == "" {
		return nil, fs.ErrNotExist
	}
	dropIns := map[string]string{}
	for _, d := range slices.Backward(folders) {
		found, _ := filepath.Glob(filepath.Join(d, name+".d", "*.conf"))
		for _, p := range found {
			dropIns[filepath.Base(p)] = p
		}
	}
	paths := []string{u.path}
	for _, n := range slices.Sorted(maps.Keys(dropIns)) {
		paths = append(paths, dropIns[n])
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		if err := u.read(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	return u, nil
}

func (u *unitFile) read(text string) error {
	options, err := unit.DeserializeOptions(strings.NewReader(text))
	if err != nil {
		return err
	}
	for _, o := range options {
		words, err := split(o.Value)
		switch o.Section + "." + o.Name {
		case "Service.Environment":
			u.environment = append(u.environment, words...)
		case "Service.EnvironmentFile":
			if o.Value == "" {
				u.files = nil
				continue
			}
			p, optional := strings.CutPrefix(o.Value, "-")
			u.files = append(u.files, environmentFile{p, optional})
		case "Service.ExecStart":
			u.exec = words // an empty line resets it, and kubeadm's drop-in has one before its own
		case "Service.Restart":
			u.restart = o.Value
		case "Service.RestartSec":
			u.pause, err = time.ParseDuration(o.Value)
			if seconds, notNumber := strconv.Atoi(o.Value); notNumber == nil {
				u.pause, err = time.Duration(seconds)*time.Second, nil
			}
		case "Unit.After":
			u.after = append(u.after, words...)
		default:
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s=%s: %w", o.Name, o.Value, err)
		}
	}

	return nil
}

// command is the command line and the environment of a start now.
func (u *unitFile) command() (words, environment []string, err error) {
	variables := map[string]string{}
	set := func(assignment string) {
		k, v, _ := strings.Cut(assignment, "=")
		variables[k] = v
	}
	for _, a := range u.environment {
		set(a)
	}
	for _, f := range u.files {
		text, err := os.ReadFile(f.Path)
		if errors.Is(err, fs.ErrNotExist) && f.Optional {
			continue
		} else if err != nil {
			return nil, nil, err
		}
		assignments, err := parseEnvironment(string(text))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		for _, a := range assignments {
			set(a)
		}
	}
	for _, w := range u.exec {
		name, ok := strings.CutPrefix(w, "$")
		switch {
		case ok && strings.HasPrefix(name, "{"): // one word, as it is
			words = append(words, variables[strings.Trim(name, "{}")])
		case ok: // split at white space, quotes kept together; unset: no word
			parts, err := split(variables[name])
			if err != nil {
				return nil, nil, err
			}
			words = append(words, parts...)
		default:
			words = append(words, w)
		}
	}
	environment = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	for k, v := range variables {
		environment = append(environment, k+"="+v)
	}
	return words, environment, nil
}

// split cuts a text into words as systemd does for a command line: quotes hold together, a backslash takes the next
// byte.
func split(text string) (words []string, err error) {
	var word strings.Builder
	inside, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			word.WriteByte(text[i])
			inside = true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, inside = c, true
		case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
			if inside {
				words = append(words, word.String())
				word.Reset()
				inside = false
			}
		default:
			word.WriteByte(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote that is not closed in %q", text)
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

// parseEnvironment reads an EnvironmentFile= (systemd.exec(5)): KEY=VALUE, the value in quotes or not, lines joined
// by a backslash.
func parseEnvironment(text string) (out []string, err error) {
	text = strings.ReplaceAll(text, "\\\n", "")
	for len(text) > 0 {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			break
		}
		if text[0] == '#' || text[0] == ';' {
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		key, rest, ok := strings.Cut(text, "=")
		if !ok || strings.ContainsAny(key, "\n") {
			return nil, fmt.Errorf("invalid assignment %q", key)
		}
		var value strings.Builder
		quote := byte(0)
		i := 0
		for ; i < len(rest); i++ {
			c := rest[i]
			switch {
			case c == '\\' && quote != '\'' && i+1 < len(rest):
				i++
				value.WriteByte(rest[i])
				continue
			case quote != 0 && c == quote:
				quote = 0
				continue
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
				continue
			}
			if quote == 0 && c == '\n' {
				break
			}
			value.WriteByte(c)
		}
		if quote != 0 {
			return nil, fmt.Errorf("a quote of %s is not closed", key)
		}
		text = rest[min(i, len(rest)):]
		out = append(out, strings.TrimSpace(key)+"="+strings.TrimRight(value.String(), " \t\r"))
	}
	return out, nil
}
