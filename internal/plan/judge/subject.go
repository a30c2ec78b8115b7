package judge

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/kubelet/rules"
	"github.com/prelet/prelet/internal/model/tape"
	"github.com/prelet/prelet/internal/plan/hostfiles"
	"github.com/prelet/prelet/internal/platform/unitfile"
)

// ask returns an answer of the machine; isKnown is false without one, as in a check.
func ask[Req, Ans any](
	ctx context.Context, j checker, topic tape.Topic[Req, Ans], req Req,
) (a Ans, isKnown bool) {
	if j.Tape == nil {
		return a, false
	}
	a, _, err := topic.Ask(ctx, j.Tape, req)

	return a, err == nil
}

// makeSubject returns the input of the rules. In a check the machine is unknown.
func (j checker) makeSubject(ctx context.Context) rules.Subject {
	s := j.makeInstalled()
	s.DropInVariable = j.findDropInVariable(ctx)
	s.Config, s.Part, s.Unset = j.makeConfig()
	if s.Config != nil && !s.Part && j.Files.File != nil {
		s.File = kubelet.ConfigOf(j.Files.File)
	}
	s.Flags = j.flags.Parsed()
	s.MaySet = j.maySet
	// The file of a drop-in is another one than that of --config.
	if f, ok := j.Node.FindPurpose("kubelet-config"); ok && j.Node.DropIn == "" {
		s.Dir = path.Dir(f.Path)
	}

	s.Plugins, s.PluginsRefused = j.listPlugins(ctx)
	s.CheckFile = func(cert, key string) (string, bool) {
		return j.refuseServing(ctx, cert, key)
	}
	if !j.Check && s.Config != nil {
		s.Machine = rules.NewMachine(j.Facts, j.Kubelet)
		if slices.ContainsFunc(j.Node.Files, isRuntimeConfig) {
			s.Machine.CgroupDriver = "" // those of the files on the disk, which the plan may change
			s.Machine.Endpoint = ""
		}
		s.Machine.Exists = func(p string) (exists, isKnown bool) {
			return j.pathExists(ctx, p)
		}
		s.Machine.LookUpProgram = func(p string) (rules.Program, bool) {
			return j.lookUpProgram(ctx, p)
		}
		s.Machine.Logind = func() (rules.Logind, bool) {
			a, isKnown := ask(ctx, j, tape.Logind, tape.LogindReq{})
			return hostfiles.FindLogind(a, j.Node.Files), isKnown
		}
	}

	return s
}

// makeInstalled returns the installed kubelet, without its configuration.
func (in Case) makeInstalled() rules.Subject {
	return rules.Subject{Accepts: in.Accepts, Version: in.Kubelet.KnownVersion()}
}

// isRuntimeConfig reports whether a planned file is of the configuration of containerd or CRI-O.
func isRuntimeConfig(f desired.File) bool {
	folders := []string{"/etc/containerd", "/etc/containerd/conf.d", "/etc/crio", "/etc/crio/crio.conf.d"}

	return f.Kind == desired.Regular && slices.Contains(folders, path.Dir(f.Path))
}

// listPlugins returns the names of the plugins in the configuration of image credential providers, planned or on the
// disk: the file of the flag, or the files of its folder that the kubelet reads. refused is why the kubelet does not.
func (j checker) listPlugins(ctx context.Context) (names []string, refused string) {
	flag, _ := j.flags.Lookup(rules.ProvidersFlag)
	place := kubelet.FlagPath(j.Node.Inherited.Line.Folder, flag)
	if place == "" {
		return nil, ""
	}

	isPlanned := false
	for _, f := range j.Node.Files {
		isInFolder := path.Dir(f.Path) == place && kubelet.IsCredentialProviderFile(f.Path)
		if f.Kind != desired.Regular || f.Path != place && !isInFolder {
			continue
		}
		isPlanned = true
		found, err := kubelet.ReadCredentialProviders(f.Text.Template())
		if err != nil {
			return nil, fmt.Sprintf("error decoding config %q: %s", f.Path, err)
		}
		for _, p := range found {
			names = append(names, p.Name)
		}
	}
	if isPlanned {
		return names, ""
	}
	a, isKnown := ask(ctx, j, tape.Exists, tape.ExistsReq{Path: place, Providers: true})
	if !isKnown {
		return nil, ""
	}

	return a.Providers, a.Refused
}

// lookUpProgram looks up a program that the kubelet executes: a planned file, or one of the disk.
func (j checker) lookUpProgram(ctx context.Context, p string) (program rules.Program, isKnown bool) {
	if f, ok := j.Node.FindFile(p); ok && f.Kind == desired.Regular {
		program.Exists = true
		if f.Mode != 0 && f.Mode&0o111 == 0 {
			program.Refused = "permission denied"
		}
		return program, true
	}
	a, isKnown := ask(ctx, j, tape.Exists, tape.ExistsReq{Path: p, Program: true})

	return rules.Program{Exists: a.Exists, Refused: a.Refused}, isKnown
}

// findDropInVariable reports whether the variable that kubelets of 1.28 and 1.29 need for --config-dir is set: in a
// planned file, in the kubelet's unit, or in kubeadm's file. nil: not known, because the unit reads another file
// too.
func (j checker) findDropInVariable(ctx context.Context) *bool {
	planned := []string{unitfile.Gate}
	for _, f := range j.Node.Files {
		if setsDropInVariable(f.Text.Template()) {
			return new(true)
		}
		planned = append(planned, f.Path)
	}

	start := j.Start
	switch {
	case start == nil:
		return nil
	case slices.Contains(start.Sets, rules.DropInVariable):
		return new(true)
	}

	isComplete := true
	for _, file := range start.Files {
		if slices.Contains(planned, file) {
			continue
		}
		if file != kubelet.KubeadmDeb().KubeadmFlagsFile { // other files may contain secrets
			isComplete = false
			continue
		}
		a, isKnown := ask(ctx, j, tape.Original, tape.OriginalReq{Path: file})
		if setsDropInVariable(a.Text) {
			return new(true)
		}
		isComplete = isComplete && isKnown
	}
	if !isComplete {
		return nil
	}

	return new(false)
}

// setsDropInVariable reports whether a unit's file or an environment file sets the variable. Most texts are long and
// do not contain its name.
func setsDropInVariable(text string) bool {
	if !strings.Contains(text, rules.DropInVariable) {
		return false
	}
	setting := regexp.MustCompile(`(?m)^[^#;\n]*\b` + rules.DropInVariable + `=["']?[^\s"']`)

	return setting.MatchString(text)
}

// makeConfig returns the kubelet's configuration as it will be; nil if it is not known. If its base is
// missing (a check without a machine) it contains only the site's settings: isPart. unset are the fields that the
// site removes then.
func (j checker) makeConfig() (c *kubelet.Config, isPart bool, unset []string) {
	if _, ok := j.Node.FindPurpose("kubelet-config"); ok {
		return j.Files.Merged.Config, false, nil
	}
	if !j.Check {
		return nil, false, nil
	}

	c = kubelet.NewConfig()
	for _, s := range j.Node.Settings {
		if s.Delete {
			unset = append(unset, tape.Pointer(s.Path...))
			continue
		}
		if err := c.Set(s.Path, s.Value); err != nil {
			return nil, false, nil // two settings contradict each other: the merge has reported it
		}
	}

	return c, true, unset
}

// pathExists reports whether the kubelet will find a path: a planned file, a folder above one, or a path of the
// disk.
func (j checker) pathExists(ctx context.Context, p string) (exists, isKnown bool) {
	isPlanned := func(f desired.File) bool {
		return f.Kind != desired.Missing && hostfiles.Covers(p, f.Path)
	}
	if slices.ContainsFunc(j.Node.Files, isPlanned) {
		return true, true
	}
	a, isKnown := ask(ctx, j, tape.Exists, tape.ExistsReq{Path: p})

	return a.Exists, isKnown
}

// refuseServing returns why the kubelet would not accept a file of CAs (key is ""), or a certificate with its key:
// as planned, or as they are on the node. Planned CAs are checked here, so that a laptop can do it; all else is
// asked through the tape.
func (j checker) refuseServing(ctx context.Context, cert, key string) (why string, isKnown bool) {
	req := tape.ServingReq{Cert: cert, Key: key}
	if f, ok := j.findWritten(ctx, cert); ok {
		text := f.Text.Template()
		switch {
		case j.isClusterCA(text):
			return "", true // the cluster was verified with it
		case key == "" && len(f.Text.Secrets()) == 0:
			return refuseCAs(cert, text), true
		}
		req.CertText = &text
	}
	if f, ok := j.findWritten(ctx, key); ok {
		req.KeyText = new(f.Text.Template())
	}

	// The question is part of a recording, and a recording must not contain a private key.
	if isPrivateKey(req.CertText) || isPrivateKey(req.KeyText) {
		return "", false
	}
	a, isKnown := ask(ctx, j, tape.Serving, req)

	return a.Refused, isKnown
}

func (j checker) isClusterCA(text string) bool {
	trust := j.Trust

	return trust != nil && strings.TrimSpace(text) == strings.TrimSpace(trust.PEM)
}

func isPrivateKey(text *string) bool {
	return text != nil && strings.Contains(*text, "PRIVATE KEY")
}

// findWritten returns the planned file at a path. A create_only file that exists stays as it is.
func (j checker) findWritten(ctx context.Context, path string) (f desired.File, ok bool) {
	f, ok = j.Node.FindFile(path)
	ok = ok && f.Kind == desired.Regular
	if ok && f.CreateOnly {
		a, isKnown := ask(ctx, j, tape.Exists, tape.ExistsReq{Path: path})
		ok = !a.Exists || !isKnown
	}

	return f, ok
}

// refuseCAs returns the kubelet's error for a text with CAs, as far as it shows without parsing the certificates,
// which package probe does; "" for none.
func refuseCAs(path, text string) string {
	if text == "" {
		return fmt.Sprintf("missing content for CA bundle \"client-ca-bundle::%s\"", path)
	}
	if why := kubelet.RefuseCertificates(text); why != "" {
		return fmt.Sprintf("error loading CA bundle for \"client-ca-bundle::%s\": %s", path, why)
	}

	return ""
}
