package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/prelet/prelet/internal/probe/hardware/hwtree"
)

// ciSite is a site without warnings.
const ciSite = "locals {\n  rack = \"r1\"\n}\n\nstage \"label\" \"x\" {\n  labels = { \"example.com/rack\" = local.rack }\n}\n\n" +
	"stage \"write\" \"kubelet\" {\n  kubelet_config { when = false }\n  ca_certificate { when = false }\n" +
	"  bootstrap_kubeconfig { when = false }\n}\n"

// ciTest is a test of that site, with a condition to fill in.
const ciTest = "run \"rack\" {\n  hardware = \"MACHINE\"\n  assert { condition = node.labels[\"example.com/rack\"] == \"WANT\" }\n}\n"

// putCISite writes the site below a new folder, which it returns.
func putCISite(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

// readYAML reads a file of the repository's root.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: got %v, want YAML of this form", name, err)
	}
}

// TestPreCommitHooks runs each hook as pre-commit does: its entry with its arguments. The changed files are not passed,
// because those of other programs end in .hcl too.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	var hooks []struct {
		ID            string `json:"id"`
		Name          string `json:"name"`
		Description   string `json:"description"`
		Entry         string `json:"entry"`
		Language      string `json:"language"`
		Files         string `json:"files"`
		PassFilenames *bool  `json:"pass_filenames"`
	}
	readYAML(t, ".pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 3 {
		t.Fatalf("got %d hooks, want 3", len(hooks))
	}

	for _, hook := range hooks {
		t.Run(hook.ID, func(t *testing.T) {
			const file = "site/site.hcl"
			if !regexp.MustCompile(hook.Files).MatchString(file) {
				t.Errorf("files %q: got no match with %s, want one", hook.Files, file)
			}
			if hook.PassFilenames == nil || *hook.PassFilenames {
				t.Error("pass_filenames: got true, want false")
			}

			ugly := strings.Replace(ciSite, "rack = ", "rack=", 1)
			dir := putCISite(t, map[string]string{file: ugly, "site/x.prelettest.hcl": ciTestOf(t, "r1")})
			runCI(t, dir, nil, 0, hook.Entry+" site")
			got, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if isFormatter := hook.ID == "prelet-fmt"; isFormatter != (string(got) == ciSite) {
				t.Errorf("the site after %s: got %q, want that only prelet-fmt changes it", hook.ID, got)
			}

			broken := map[string]string{file: "stage {\n", "site/x.prelettest.hcl": ciTestOf(t, "r1")}
			runCI(t, putCISite(t, broken), nil, 10, hook.Entry+" site")
		})
	}
}

// ciTestOf returns the test of the site over a recorded machine.
func ciTestOf(t *testing.T, want string) string {
	t.Helper()
	machine := filepath.Join(t.TempDir(), "bare-vm")
	if err := hwtree.BuildFile("../../testdata/hardware/spec/bare-vm.json", machine); err != nil {
		t.Fatal(err)
	}

	return strings.NewReplacer("MACHINE", machine, "WANT", want).Replace(ciTest)
}

// runCI runs a script in a folder as GitHub's shell does, checks its exit status, and returns its standard output.
func runCI(t *testing.T, dir string, env []string, want int, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("%s: got status %d (%v), want %d; output:\n%s%s", script, got, err, want, &stdout, &stderr)
	}

	return stdout.String()
}

// action has the parts of action.yml that a test needs.
type action struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Inputs      map[string]struct {
		Description string `json:"description"`
		Default     string `json:"default"`
	} `json:"inputs"`
	Runs struct {
		Using string `json:"using"`
		Steps []struct {
			Uses  string            `json:"uses"`
			With  map[string]string `json:"with"`
			Name  string            `json:"name"`
			Shell string            `json:"shell"`
			Env   map[string]string `json:"env"`
			Run   string            `json:"run"`
		} `json:"steps"`
	} `json:"runs"`
}

// expression is what GitHub replaces in a step.
var expression = regexp.MustCompile(`\$\{\{ *([a-z_.-]+) *\}\}`)

// TestAction runs the steps of the Action as GitHub does, but with this build of prelet: on a good site, and on sites
// that each fail one step.
func TestAction(t *testing.T) {
	t.Parallel()
	var a action
	readYAML(t, "action.yml", &a)

	for _, c := range []struct {
		name   string
		files  map[string]string
		fails  string // the step
		status int
	}{
		{name: "good", files: map[string]string{"my site/site.hcl": ciSite, "my site/x.prelettest.hcl": ciTestOf(t, "r1")}},
		{name: "no tests", files: map[string]string{"my site/site.hcl": ciSite}},
		{
			name:  "format",
			files: map[string]string{"my site/site.hcl": strings.Replace(ciSite, "rack = ", "rack=", 1)},
			fails: "Format", status: 3,
		},
		{
			name:  "validation",
			files: map[string]string{"my site/site.hcl": strings.Replace(ciSite, "= local.rack", "= local.rakc", 1)},
			fails: "Validate", status: 10,
		},
		{
			name:  "test",
			files: map[string]string{"my site/site.hcl": ciSite, "my site/x.prelettest.hcl": ciTestOf(t, "r2")},
			fails: "Test", status: 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := putCISite(t, c.files)
			for _, step := range a.Runs.Steps {
				if step.Run == "" || step.Name == "Build prelet" {
					continue
				}
				if expression.MatchString(step.Run) {
					t.Errorf("step %s: got an expression in its script, want it in env, where no input is run as code", step.Name)
				}

				var env []string
				for name, value := range step.Env {
					env = append(env, name+"="+expression.ReplaceAllStringFunc(value, func(e string) string {
						input := strings.TrimPrefix(expression.FindStringSubmatch(e)[1], "inputs.")
						known, ok := a.Inputs[input]
						if !ok {
							t.Errorf("step %s: got %s, want an input", step.Name, e)
						}
						switch input {
						case "site":
							return "my site"
						case "kubelet-version":
							return "1.36"
						}
						return known.Default
					}))
				}

				want := 0
				if step.Name == c.fails {
					want = c.status
				}
				runCI(t, dir, env, want, step.Run)
				if want != 0 {
					return // GitHub skips the later steps
				}
			}
			if c.fails != "" {
				t.Errorf("got no step %s, want one", c.fails)
			}
		})
	}
}

// TestActionBuilds runs the step that builds prelet. `make check-action` selects it.
func TestActionBuilds(t *testing.T) {
	t.Parallel()
	if os.Getenv("PRELET_ACTION") == "" {
		t.Skip("links the program; PRELET_ACTION=1 selects it")
	}
	var a action
	readYAML(t, "action.yml", &a)
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}

	for _, step := range a.Runs.Steps {
		if step.Name != "Build prelet" {
			continue
		}
		temp := t.TempDir()
		path := filepath.Join(temp, "path")
		runCI(t, temp, []string{"SOURCE=" + source, "RUNNER_TEMP=" + temp, "GITHUB_PATH=" + path, "CGO_ENABLED=0"}, 0, step.Run)
		folder, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out := runCI(t, temp, nil, 0, filepath.Join(strings.TrimSpace(string(folder)), "prelet")+" version")
		if !strings.Contains(out, "prelet") {
			t.Errorf("the built prelet: got %q, want its version", out)
		}
		return
	}
	t.Error("action.yml: got no step that builds prelet, want one")
}

// TestNightlyParts compares the parts that GitHub runs each night with those of `make nightly`.
func TestNightlyParts(t *testing.T) {
	t.Parallel()
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}

	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix map[string][]string `json:"matrix"`
			} `json:"strategy"`
		} `json:"jobs"`
	}
	if err := yaml.Unmarshal(read(".github/workflows/nightly.yml"), &workflow); err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?m)^all=\((.*)\)$`).FindSubmatch(read("tools/nightly.sh"))
	if all == nil {
		t.Fatal("tools/nightly.sh: got no line all=(…), want the parts")
	}

	got, want := workflow.Jobs["nightly"].Strategy.Matrix["part"], strings.Fields(string(all[1]))
	if !slices.Equal(got, want) {
		t.Errorf("parts of .github/workflows/nightly.yml: got %q, want those of tools/nightly.sh: %q", got, want)
	}
}

// TestCIParts compares the system parts that GitHub runs for each change with those of .ci/run.
func TestCIParts(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix map[string][]string `json:"matrix"`
			} `json:"strategy"`
		} `json:"jobs"`
	}
	text, err := os.ReadFile(filepath.Join(repository, ".github/workflows/ci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(repository, ".ci/run"))
	if err != nil {
		t.Fatal(err)
	}
	_, parts, _ := strings.Cut(string(script), "\nsystem_parts() {\n")
	parts, _, _ = strings.Cut(parts, "\n}\n")

	var want []string
	for _, part := range regexp.MustCompile(`(?m)\bpart ([a-z]+) `).FindAllStringSubmatch(parts, -1) {
		want = append(want, part[1])
	}
	got := strings.Fields(strings.Join(workflow.Jobs["system"].Strategy.Matrix["parts"], " "))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(got) < 10 {
		t.Errorf("parts of .github/workflows/ci.yml: got %q, want those of .ci/run system: %q", got, want)
	}
}
