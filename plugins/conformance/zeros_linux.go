package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/plugins/contract"
	"github.com/prelet/prelet/plugins/protocol"
)

// checkZeros looks for facts that are unknown where they should be false or 0, as of a detector that takes an empty
// value for a missing one. Each fact that is true, or a number, and names one file as its evidence is asked for again
// on a copy of the machine with false or 0 in that file. For others it compares the machines that the caller gave.
func (k *kit) checkZeros(client protocol.Client, config map[string]any, machines []machine) {
	var lost, doubted []string
	isTrue, isFalse, unknownOn := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, m := range machines {
		a, err := k.detect(client, config, m)
		if err != nil { // reported by the check "detect"
			continue
		}
		for _, f := range a.Facts {
			switch {
			case f.Value == false:
				isFalse[f.Name] = true
			case f.Value == true:
				isTrue[f.Name] = true
			case f.Value == nil && slices.Contains(k.options.Roots, m.dir):
				unknownOn[f.Name] = m.name
			}
			finding, err := k.askZero(client, config, m, f)
			if err != nil {
				k.checks["zeros"] = Finding{State: Skipped, Found: err.Error()}
				return
			}
			if finding != "" {
				lost = append(lost, m.name+": "+finding)
			}
		}
	}
	for _, d := range k.description.Facts {
		where, isUnknown := unknownOn[d.Name]
		if isUnknown && isTrue[d.Name] && !isFalse[d.Name] {
			const text = "fact %s is true, or unknown (%s), and false on no machine"
			doubted = append(doubted, fmt.Sprintf(text, d.Name, where))
		}
	}

	const fix = "false and 0 are values: report them with Is. A fact is unknown, with a reason, only where it could " +
		"not be read. Check with a machine where it is false: --machine DIR."
	k.record("zeros", Note, doubted, fix)
	if len(lost) > 0 {
		k.record("zeros", Failed, lost, fix)
	}
}

// askZero asks on a copy of a machine whether a fact stays known with false or 0 in the file that is its evidence. It
// returns a finding, or "", also for a fact without such a file.
func (k *kit) askZero(client protocol.Client, config map[string]any, m machine, f contract.Fact) (string, error) {
	text, hasFile := readEvidence(m.dir, f.Evidence)
	zero := zeroOf(f.Value, text)
	if !hasFile || zero == "" {
		return "", nil
	}

	k.zeros++
	changed := m
	changed.dir = filepath.Join(k.dir, "root-zero-"+strconv.Itoa(k.zeros))
	if err := copyMachine(changed.dir, m.dir); err != nil {
		return "", fmt.Errorf("copying the machine %s: %w", m.name, err)
	}
	defer os.RemoveAll(changed.dir)
	k.roots = append(k.roots, changed.dir)
	if err := writeEvidence(changed.dir, f.Evidence, zero); err != nil {
		return "", err
	}

	a, err := k.detect(client, config, changed)
	if err != nil { // a detector may refuse its input
		return "", nil //nolint:nilerr // the check "odd" is about that
	}
	for _, now := range a.Facts {
		if now.Name == f.Name && now.Value != nil {
			return "", nil
		}
	}

	const found = "fact %s is %v with %q in %s, and unknown with %q"
	return fmt.Sprintf(found, f.Name, f.Value, text, f.Evidence, zero), nil
}

// zeroOf returns the text of false or 0 for a fact that is true, or a number, and was read from a text; "" for others.
func zeroOf(value any, text string) string {
	negations := map[string]string{
		"1": "0", "Y": "N", "y": "n", "yes": "no", "Yes": "No", "true": "false", "True": "False", "on": "off",
		"enabled": "disabled", "Enabled": "Disabled",
	}
	switch value := value.(type) {
	case bool:
		if value {
			return negations[text]
		}
	case float64:
		if n, err := strconv.ParseFloat(text, 64); err == nil && n == value && n != 0 {
			return "0"
		}
	}

	return ""
}

// readEvidence returns the trimmed content of a fact's evidence, if that is the path of a file of the machine.
func readEvidence(dir, evidence string) (string, bool) {
	name, isPath := strings.CutPrefix(evidence, "/")
	root, err := os.OpenRoot(dir)
	if err != nil || !isPath {
		return "", false
	}
	defer root.Close()
	st, err := root.Stat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() > contract.MaxText {
		return "", false
	}
	content, err := root.ReadFile(name)

	return strings.TrimSpace(string(content)), err == nil
}

func writeEvidence(dir, evidence, text string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	name := strings.TrimPrefix(evidence, "/")
	if err := root.Chmod(name, 0o644); err != nil {
		return err
	}

	return root.WriteFile(name, []byte(text+"\n"), 0o644)
}

// copyMachine copies the folders, files and links of a machine.
func copyMachine(to, from string) error {
	const limit = 20_000
	n := 0
	err := filepath.WalkDir(from, func(_ string, _ fs.DirEntry, err error) error {
		if n++; n > limit {
			return fmt.Errorf("it has more than %d files", limit)
		}
		return err
	})
	if err != nil {
		return err
	}

	return errors.Join(os.CopyFS(to, os.DirFS(from)), os.Chmod(to, 0o755))
}
