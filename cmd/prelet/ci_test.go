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

	"github.com/prelet/prelet/internal/machine/probe/hardware/hwtree"
	"github.com/prelet/prelet/internal/testing/osfile"
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
	osfile.WriteTree(t, dir, files)

	return dir
}

// readYAML reads a file of the repository's root.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text := osfile.Read(t, filepath.Join("..", "..", name))
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
	source, releases := putRelease(t)

	for _, hook := range hooks {
		t.Run(hook.ID, func(t *testing.T) {
			const file = "site/site.hcl"
			if !regexp.MustCompile(hook.Files).MatchString(file) {
				t.Errorf("files %q: got no match with %s, want one", hook.Files, file)
			}
			if hook.Language != "script" {
				t.Errorf("language: got %q, want script, with which pre-commit builds nothing by itself", hook.Language)
			}
			if hook.PassFilenames == nil || *hook.PassFilenames {
				t.Error("pass_filenames: got true, want false")
			}

			ugly := strings.Replace(ciSite, "rack = ", "rack=", 1)
			dir := putCISite(t, map[string]string{file: ugly, "site/x.prelettest.hcl": ciTestOf(t, "r1")})
			runCI(t, dir, releases, 0, filepath.Join(source, hook.Entry)+" site")
			got := osfile.Read(t, filepath.Join(dir, file))
			if isFormatter := hook.ID == "prelet-fmt"; isFormatter != (string(got) == ciSite) {
				t.Errorf("the site after %s: got %q, want that only prelet-fmt changes it", hook.ID, got)
			}

			broken := map[string]string{file: "stage {\n", "site/x.prelettest.hcl": ciTestOf(t, "r1")}
			runCI(t, putCISite(t, broken), releases, 10, filepath.Join(source, hook.Entry)+" site")
		})
	}
}

// ciTestOf returns the test of the site over a recorded machine.
func ciTestOf(t *testing.T, want string) string {
	t.Helper()
	machine := filepath.Join(t.TempDir(), "bare-vm")
	noError(t, hwtree.BuildFile("../../testdata/hardware/spec/bare-vm.json", machine))

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
	Branding    struct {
		Icon  string `json:"icon"`
		Color string `json:"color"`
	} `json:"branding"`
	Inputs map[string]struct {
		Description string `json:"description"`
		Default     string `json:"default"`
	} `json:"inputs"`
	Runs struct {
		Using string `json:"using"`
		Steps []struct {
			ID    string            `json:"id"`
			If    string            `json:"if"`
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
		{name: "repository", files: map[string]string{
			"my site/.prelet.hcl": "layers = [\"a\"]\n", "my site/a/site.hcl": ciSite,
			"my site/a/tests/x.prelettest.hcl": ciTestOf(t, "r1"),
		}},
		{
			name: "test of a repository",
			files: map[string]string{
				"my site/.prelet.hcl": "layers = [\"a\"]\n", "my site/a/site.hcl": ciSite,
				"my site/a/tests/x.prelettest.hcl": ciTestOf(t, "r2"),
			},
			fails: "Test", status: 3,
		},
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
				isGotten := step.Name == "Get prelet" || step.Name == "Build prelet"
				if step.Run == "" || isGotten {
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

// runStep runs the script of a step of the Action, whose outputs it returns. It also checks that each step that is named
// in a condition exists.
func runStep(t *testing.T, name, source string, env []string, want int) (temp, outputs string) {
	t.Helper()
	var a action
	readYAML(t, "action.yml", &a)
	if a.Branding.Icon == "" || a.Branding.Color == "" {
		t.Errorf("branding: got %v, want an icon and a color, which GitHub's marketplace requires", a.Branding)
	}

	temp = t.TempDir()
	env = append(env, "SOURCE="+source, "RUNNER_TEMP="+temp, "GITHUB_PATH="+temp+"/path", "GITHUB_OUTPUT="+temp+"/output")
	ids, isFound := map[string]bool{}, false
	for _, step := range a.Runs.Steps {
		for _, used := range regexp.MustCompile(`steps\.([a-z]+)\.`).FindAllStringSubmatch(step.If+step.With["key"], -1) {
			if !ids[used[1]] {
				t.Errorf("condition %q: got step %s, want one that is before it", step.If, used[1])
			}
		}
		ids[step.ID] = true
		if step.Name == name {
			isFound = true
			runCI(t, temp, env, want, step.Run)
		}
	}
	if !isFound {
		t.Errorf("action.yml: got no step %q, want one", name)
	}
	text, err := os.ReadFile(temp + "/output")
	if err != nil && want == 0 && name == "Get prelet" {
		t.Errorf("outputs of %s: got %v, want some", name, err)
	}

	return temp, string(text)
}

// putRelease writes the source of the release 0.99.7, as far as getting the program needs it, and a folder with the
// files of that release, in which prelet is this build. It returns the source and a variable with the place.
func putRelease(t *testing.T) (source string, env []string) {
	t.Helper()
	prelet, err := exec.LookPath("prelet")
	noError(t, err)
	source = t.TempDir()
	runCI(t, source, []string{"REPOSITORY=" + absolutePath(t, repository), "PRELET=" + prelet}, 0, `
		mkdir -p tools releases/v0.99.7 usr/bin
		cp "$REPOSITORY"/tools/{get-prelet,pre-commit,version}.sh tools/
		sed '/^replace /d; s|prelet/plugins v0.0.0|prelet/plugins v0.99.7|' "$REPOSITORY/go.mod" >go.mod
		printf '#!/bin/sh\nexec %s "$@"\n' "$PRELET" >usr/bin/prelet
		chmod +x usr/bin/prelet
		for arch in amd64 arm64; do tar -czf releases/v0.99.7/prelet-0.99.7-linux-$arch.tar.gz ./usr; done
		rm -r usr
		cd releases/v0.99.7
		sha256sum * >SHA256SUMS`)

	return source, []string{"RELEASES=file://" + source + "/releases"}
}

func absolutePath(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	noError(t, err)

	return path
}

// TestActionGets runs the step that gets a released program: of the Action's own version, of another one, of none, and
// with checksums or signatures that are wrong.
func TestActionGets(t *testing.T) {
	t.Parallel()
	const sign = `ssh-keygen -q -t ed25519 -N "" -C "" -f key
		mkdir -p packaging/keys
		echo "prelet $(cat key.pub)" >packaging/keys/allowed_signers
		ssh-keygen -q -Y sign -f key -n file releases/v0.99.7/SHA256SUMS`

	for _, c := range []struct {
		name, change, version string
		want                  int
		build                 string
	}{
		{name: "own release", build: "build=false\n"},
		{name: "named release", version: "v0.99.7", change: "echo >>go.mod 'replace github.com/prelet/prelet/plugins => x'", build: "build=false\n"},
		{name: "main", change: "echo >>go.mod 'replace github.com/prelet/prelet/plugins => x'", build: "build=true\n"},
		{name: "not published", change: "rm -r releases/v0.99.7", build: "build=true\n"},
		{name: "unknown release", version: "0.99.8", want: 1},
		{name: "other program", change: "echo >>releases/v0.99.7/prelet-0.99.7-linux-amd64.tar.gz; echo >>releases/v0.99.7/prelet-0.99.7-linux-arm64.tar.gz", want: 1},
		{name: "no checksum", change: ": >releases/v0.99.7/SHA256SUMS", want: 1},
		{name: "signed", change: sign, build: "build=false\n"},
		{name: "other signer", change: sign + "; rm key releases/v0.99.7/SHA256SUMS.sig; ssh-keygen -q -t ed25519 -N '' -f key <<<y; ssh-keygen -q -Y sign -f key -n file releases/v0.99.7/SHA256SUMS", want: 255},
		{name: "changed sums", change: sign + "; echo >>releases/v0.99.7/SHA256SUMS", want: 255},
		{name: "not signed", change: sign + "; rm releases/v0.99.7/SHA256SUMS.sig", version: "0.99.7", want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, env := putRelease(t)
			runCI(t, source, nil, 0, "true; "+c.change)
			temp, outputs := runStep(t, "Get prelet", source, append(env, "VERSION="+c.version), c.want)
			if !strings.HasPrefix(outputs, c.build) {
				t.Errorf("outputs: got %q, want %q first", outputs, c.build)
			}

			_, err := os.Stat(filepath.Join(temp, "prelet", "prelet"))
			if isGotten := err == nil; isGotten != (c.build == "build=false\n") {
				t.Errorf("the program: got %v, want it only from a release that is right", err)
			}
			if c.want == 0 {
				path, err := os.ReadFile(filepath.Join(temp, "path"))
				if want := filepath.Join(temp, "prelet") + "\n"; err != nil || string(path) != want {
					t.Errorf("the path: got %q, %v; want %q", path, err, want)
				}
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
	temp, _ := runStep(t, "Build prelet", absolutePath(t, repository), nil, 0)
	out := runCI(t, temp, nil, 0, "prelet/prelet version")
	if want := strings.TrimSpace(runCI(t, repository, nil, 0, "tools/version.sh")); !strings.Contains(out, want) {
		t.Errorf("the built prelet: got %q, want its version %s", out, want)
	}
}

// readMatrix returns the values of a variable of the matrix of a job of a workflow.
func readMatrix(t *testing.T, file, job, name string) []string {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Strategy struct {
				Matrix map[string][]string `json:"matrix"`
			} `json:"strategy"`
		} `json:"jobs"`
	}
	noError(t, yaml.Unmarshal(osfile.Read(t, filepath.Join(repository, ".github/workflows", file)), &workflow))

	return workflow.Jobs[job].Strategy.Matrix[name]
}

// TestNightlyParts compares the parts that GitHub runs each night with those of `make nightly`.
func TestNightlyParts(t *testing.T) {
	t.Parallel()
	script := osfile.Read(t, repository+"/tools/nightly.sh")
	all := regexp.MustCompile(`(?m)^all=\((.*)\)$`).FindSubmatch(script)
	if all == nil {
		t.Fatal("tools/nightly.sh: got no line all=(…), want the parts")
	}

	got, want := readMatrix(t, "nightly.yml", "nightly", "part"), strings.Fields(string(all[1]))
	if !slices.Equal(got, want) {
		t.Errorf("parts of .github/workflows/nightly.yml: got %q, want those of tools/nightly.sh: %q", got, want)
	}
}

// TestCIParts compares the system parts that GitHub runs for each change with those of .ci/run.
func TestCIParts(t *testing.T) {
	t.Parallel()
	_, parts, _ := strings.Cut(string(osfile.Read(t, repository+"/.ci/run")), "\nsystem_parts() {\n")
	parts, _, _ = strings.Cut(parts, "\n}\n")

	var want []string
	for _, part := range regexp.MustCompile(`(?m)\bpart ([a-z0-9]+) `).FindAllStringSubmatch(parts, -1) {
		want = append(want, part[1])
	}
	got := strings.Fields(strings.Join(readMatrix(t, "ci.yml", "system", "parts"), " "))
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(got) < 10 {
		t.Errorf("parts of .github/workflows/ci.yml: got %q, want those of .ci/run system: %q", got, want)
	}
}
