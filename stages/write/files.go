package write

import (
	"cmp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/model/desired"
	"github.com/prelet/prelet/internal/model/kubelet"
	"github.com/prelet/prelet/internal/model/origin"
	"github.com/prelet/prelet/internal/model/secret"
	"github.com/prelet/prelet/schema"
)

// renderBootstrap renders the kubeconfig for the join of a node. It contains the token by name.
func (r *renderer) renderBootstrap(b schema.Body) {
	if r.isSkipped(b) {
		r.whole = false
		return
	}

	ca := bootCA.Of(b)
	server := bootServer.Of(b)
	const noToken = "No token to join with"
	const next = "%s has not joined, and the cluster block has no token. " +
		"Write token = credential(\"bootstrap-token\") there, or leave the file out: " +
		"bootstrap_kubeconfig { when = false }."
	switch {
	case r.in.Check && r.in.Access.Token == "" && !ca.Null(): // a check has no machine that could have joined
		r.Warn(fault.MissingArgument, b.Range, noToken, next, "No plan is made for a node that")
		return
	case !server.Cty.IsKnown() && !r.in.Check:
		r.whole = false
		return
	case !ca.Set(), server.V == "" && len(r.in.Access.Servers) == 0:
		r.whole = r.whole && ca.Cty.IsKnown() && server.Cty.IsKnown()
		return
	case r.in.Access.Token == "":
		r.Error(fault.MissingArgument, b.Range, noToken, next, "The node")
		return
	}

	if !r.isCA(ca) {
		return
	}
	url := server.V
	if url == "" {
		url = r.in.Access.Servers[0]
	}
	if !strings.Contains(url, "://") {
		url = "https://" + url
	}
	token := secret.Credential(r.in.Access.Token)
	placeholder, _ := secret.Plain(token)
	text := cty.StringVal(kubelet.BootstrapKubeconfig(
		url,
		r.in.Access.ProxyURL,
		ca.V,
		placeholder.AsString(),
	))
	t, err := secret.TextOf(text.WithMarks(token.Marks()))
	if err != nil {
		r.Error(fault.Internal, b.Range, "The bootstrap kubeconfig cannot be rendered", "%s.", err)
		return
	}
	r.add(b, desired.File{
		Path:        bootPath.Of(b).V,
		Kind:        desired.Regular,
		Text:        t,
		Mode:        0o600,
		Purpose:     "bootstrap-kubeconfig",
		OutsideHash: true,
		Origins:     place(r.in.Address, b.Range),
	})
	r.warnProxy(b)
}

// warnProxy warns of a proxy that the kubelet would lose: it does not copy proxy-url from the bootstrap kubeconfig to
// the kubelet.conf that it writes (pkg/kubelet/certificate/bootstrap), and then uses the proxy of its environment.
func (r *renderer) warnProxy(b schema.Body) {
	const variable = "HTTPS_PROXY"
	var names []string
	if r.in.Start != nil {
		names = append(names, r.in.Start.Sets...)
	}
	if read, ok := r.in.Base.FlagsFile.(flagsRead); ok {
		names = append(names, read.Names()...)
	}
	isSet := slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, variable) })
	if r.in.Access.ProxyURL == "" || isSet {
		return
	}

	r.Warn(
		fault.ClusterUnreachable, b.Range, "The kubelet loses its proxy when it has joined",
		"It joins through proxy_url, and writes a kubelet.conf without a proxy. If it reaches the cluster only "+
			"through the proxy, set %s in its environment, as in a drop-in of its unit; NO_PROXY has addresses that "+
			"it reaches directly.", variable,
	)
}

// renderKubeconfig renders the kubeconfig of a node that has joined, if the CAs in it are not the cluster's: the
// kubelet took them from the bootstrap kubeconfig, and never changes them. Nothing else in the file changes.
func (r *renderer) renderKubeconfig(b schema.Body) {
	ca := bootCA.Of(b)
	id := r.in.Kubelet.Identity
	if id == nil || id.CA == "" || !ca.Set() || r.isSkipped(b) {
		return
	}

	change := kubelet.CompareCAs(id.CA, ca.V)
	if change.IsEmpty() {
		return
	}

	file := chooseLayout(r.in).Kubeconfig
	text, ok := kubelet.ReplaceCA(id.Kubeconfig, id.CA, ca.V)
	if !ok {
		r.Warn(
			fault.ClusterCA, b.Range, "The CAs in "+file+" are not the cluster's",
			"%s. prelet does not write this file, because it contains a credential, or other users may change it. "+
				"Put the CAs of ca.crt into its certificate-authority-data, and restart the kubelet.",
			origin.Capitalize(change.Sentence()),
		)
		return
	}

	r.Note(
		fault.ClusterCA,
		b.Range,
		"The CAs in "+file+" change",
		"%s.",
		origin.Capitalize(change.Sentence()),
	)
	r.add(b, desired.File{
		Path:        file,
		Kind:        desired.Regular,
		Text:        secret.PlainText(text),
		Purpose:     "kubeconfig",
		OutsideHash: true,
		Origins:     place(r.in.Address, b.Range),
	})
}

func (r *renderer) renderCA(b schema.Body) {
	v := caContent.Of(b)
	if isParsed(v.Expr) {
		refuseParsed(&r.Collector, v, "Write file(PATH) for the text.")
		return
	}
	if !v.Set() || r.isSkipped(b) {
		r.whole = r.whole && v.Cty.IsKnown() && !r.isSkipped(b)
		return
	}
	if !r.isCA(v) {
		return
	}

	from := v.Origins()
	if len(from) == 0 {
		from = place(r.in.Address, b.Range)
	}
	r.add(b, desired.File{
		Path:    caPath.Of(b).V,
		Kind:    desired.Regular,
		Text:    secret.PlainText(strings.TrimSuffix(v.V, "\n") + "\n"),
		Mode:    0o644,
		Purpose: "ca",
		Origins: from,
	})
}

// isCA reports whether the kubelet can read a CA that the site gives. That of fetch-ca is checked when it is fetched.
func (r *renderer) isCA(v schema.Value[string]) bool {
	if v.Expr == nil {
		return true
	}
	if kubelet.RefuseCertificates(v.V) != "" {
		r.Error(fault.WrongType, v.Range, "Not a certificate",
			"The kubelet cannot read it. A PEM text of certificates is needed: -----BEGIN CERTIFICATE-----.")
		return false
	}

	return true
}

// renderSiteFiles renders the files and folders that a site adds.
func (r *renderer) renderSiteFiles() {
	for _, b := range r.cfg.Blocks["file"] {
		r.renderFile(b)
	}
	for _, b := range r.cfg.Blocks["directory"] {
		r.renderFolder(b)
	}
}

func areKnown(values ...cty.Value) bool {
	return !slices.ContainsFunc(values, func(v cty.Value) bool {
		return !v.IsKnown()
	})
}

func (r *renderer) renderFile(b schema.Body) {
	p := filePath.Of(b)
	c := fileContent.Of(b)
	mode := fileMode.Of(b)
	owner := fileOwner.Of(b)
	if r.isSkipped(b) || !areKnown(c.Cty, p.Cty, mode.Cty, owner.Cty, createOnly.Of(b).Cty) {
		r.whole = false
		return
	}

	text, err := secret.TextOf(c.Cty)
	if err != nil {
		r.Error(
			fault.WrongType,
			c.Range,
			"The content cannot be written",
			"file %q: %s.",
			b.Labels[0],
			err,
		)
		return
	}
	r.warnMode(mode)

	f := desired.File{
		Path:       p.V,
		Kind:       desired.Regular,
		Text:       text,
		Mode:       parsePermissions(mode),
		Owner:      owner.V,
		OwnerRange: owner.Range,
		CreateOnly: createOnly.Of(b).V,
		Notify:     listNotified(fileNotify.Of(b)),
		Purpose:    "file",
		Origins:    c.Origins(),
	}
	if len(text.Secrets()) > 0 {
		f.Mode = cmp.Or(r.limitSecretMode(b, mode, f.Mode), 0o600)
	}
	r.add(b, f)
}

// maxSecretMode has the permissions that a file with a secret may have: its group may read it.
const maxSecretMode = 0o640

// limitSecretMode returns the mode of a file with a secret; 0: the site sets none, or one with which more than the
// owner and the readers of one group could use the secret. A check refuses such a mode. A node boots with a warning,
// because prelet 0.1.0 did.
func (r *renderer) limitSecretMode(
	b schema.Body,
	v schema.Value[string],
	mode uint32,
) uint32 {
	if mode&^maxSecretMode == 0 {
		return mode
	}

	report, written := r.Error, ""
	if !r.in.Check {
		report, written = r.Warn, "It is written 0600. "
	}
	report(
		fault.Sensitive, v.Range, "Others could use a secret",
		"file %q contains a secret, so its mode is at most 0640: others may not read it, and its group may not "+
			"change it. %sWrite mode = \"%04o\"; owner = \"root:GROUP\" names a group that reads it.",
		b.Labels[0], written, cmp.Or(mode&maxSecretMode, 0o600),
	)

	return 0
}

func (r *renderer) renderFolder(b schema.Body) {
	p := dirPath.Of(b)
	mode := dirMode.Of(b)
	owner := dirOwner.Of(b)
	if r.isSkipped(b) || !areKnown(p.Cty, mode.Cty, owner.Cty) {
		r.whole = false
		return
	}
	r.warnMode(mode)
	r.warnClosed(mode)

	f := desired.File{
		Path:       p.V,
		Kind:       desired.Directory,
		Mode:       parsePermissions(mode),
		Owner:      owner.V,
		OwnerRange: owner.Range,
		Notify:     listNotified(dirNotify.Of(b)),
		Purpose:    "directory",
		Origins:    p.Origins(),
	}
	r.checkSystemFolder(b, f)
	r.add(b, f)
}

// checkSystemPaths refuses files and folders at paths that the system needs, unless the block has a reason.
func (r *renderer) checkSystemPaths() {
	for _, b := range r.cfg.Blocks["file"] {
		r.checkSystemPath(b, filePath.Of(b), fileForce.Of(b))
	}
	for _, b := range r.cfg.Blocks["directory"] {
		r.checkSystemPath(b, dirPath.Of(b), dirForce.Of(b))
	}
}

// checkSystemPath checks the path of one block.
func (r *renderer) checkSystemPath(b schema.Body, p, force schema.Value[string]) {
	if !p.Set() || r.isSkipped(b) || !areKnown(p.Cty, force.Cty) {
		return
	}

	why := explainSystem(p.V)
	switch {
	case why == "":
	case force.Set():
		r.Note(
			fault.SystemFile, p.Range, p.V+" is of the system",
			"%s %q writes it, because of force: %s.", b.Type, b.Labels[0], strings.TrimSuffix(force.V, "."),
		)
	default:
		r.Error(
			fault.SystemFile, p.Range, p.V+" is of the system",
			"%s %q writes it, and %s. Name another path. If this site has to write it, add the reason to the block: "+
				"force = \"REASON\".", b.Type, b.Labels[0], why,
		)
	}
}

// isSystemFolder reports whether every machine has a folder, all users need it, and root reads its files.
func isSystemFolder(path string) bool {
	return slices.Contains([]string{
		"/etc", "/etc/alternatives", "/etc/dbus-1", "/etc/dbus-1/system.d", "/etc/ld.so.conf.d", "/etc/pki",
		"/etc/profile.d", "/etc/security", "/etc/ssl", "/etc/ssl/certs", "/etc/systemd", "/etc/systemd/system", "/run",
		"/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/var", "/var/lib", "/var/tmp",
	}, path)
}

// isSharedFolder reports whether every machine has a folder, and a group writes there on many machines, as syslog
// to /var/log.
func isSharedFolder(path string) bool {
	return slices.Contains([]string{"/boot", "/home", "/opt", "/srv", "/var/cache", "/var/log"}, path)
}

// checkSystemFolder refuses a mode or an owner with which other users could not use a folder of the system, or
// could replace its files. f is the folder, b its block.
func (r *renderer) checkSystemFolder(b schema.Body, f desired.File) {
	isShared := isSharedFolder(f.Path)
	if !isShared && !isSystemFolder(f.Path) {
		if why := r.explainRootFolder(f.Path); why != "" {
			r.checkRootFolder(b, f, why)
		}

		return
	}

	m := dirMode.Of(b)
	if m.Set() && !isShared && f.Mode&0o755 != 0o755 {
		r.Error(
			fault.PathInvalid, m.Range, "Others need "+f.Path,
			"With mode %04o, services that are not root could not use this folder of the system. "+
				"Leave mode out, or name a folder below it.", f.Mode,
		)
	}

	if isShared {
		f.Owner = "" // any owner is allowed
	}
	isSticky := isShared || f.Path == "/tmp" || f.Path == "/var/tmp"
	who, at, _ := desired.FindReplacer(f, isSticky)
	if who == "" {
		return
	}
	attribute := "owner"
	if at.Filename == "" {
		attribute = "mode"
		at = m.Range
	}
	r.Error(
		fault.PathInvalid, at, f.Path+" is root's",
		"With this %[1]s, %[2]s could replace files in this folder of the system. "+
			"Leave %[1]s out, or name a folder below it.", attribute, who,
	)
}

// checkRootFolder refuses a mode or an owner with which other users could replace files that root acts on, unless the
// block has a reason, of which checkSystemPath makes the note. f is the folder, b its block, and why what acts on it.
func (r *renderer) checkRootFolder(b schema.Body, f desired.File, why string) {
	who, at, _ := desired.FindReplacer(f, false)
	force := dirForce.Of(b)
	if who == "" || !areKnown(force.Cty) {
		return
	}

	attribute := "owner"
	if at.Filename == "" {
		attribute = "mode"
		at = dirMode.Of(b).Range
	}

	switch {
	case !force.Set():
		r.Error(
			fault.SystemFile, at, f.Path+" is root's",
			"With this %[1]s, %[2]s could replace files in it, and %[3]s. Leave %[1]s out. If this site has to set "+
				"it, add the reason to the block: force = \"REASON\".", attribute, who, why,
		)
	case explainSystem(f.Path) == "":
		r.Note(
			fault.SystemFile, at, f.Path+" is root's",
			"directory %q lets %s replace files in it, because of force: %s.",
			b.Labels[0], who, strings.TrimSuffix(force.V, "."),
		)
	}
}

// warnClosed warns of a folder that others may list, and of which they may open no file.
func (r *renderer) warnClosed(v schema.Value[string]) {
	m := parsePermissions(v)
	if open := m | m&0o044>>2; v.Set() && open != m {
		r.Warn(
			fault.WrongType, v.Range, "Others could list this folder, and open none of its files",
			"A folder is entered with x, not with r. Write mode = \"%04o\".", open|0o100,
		)
	}
}

// warnMode warns of a mode that is probably a mistake: every user may write, or others have permissions that the
// owner lacks, because a number without quotes is decimal.
func (r *renderer) warnMode(v schema.Value[string]) {
	m := parsePermissions(v)
	owner := m >> 6 & 7
	others := m>>3&7 | m&7
	switch {
	case !v.Set() || m&0o1000 != 0:
	case m&0o002 != 0:
		r.Warn(
			fault.WrongType, v.Range, "Everyone could write it",
			"Mode %04o lets every user change what root reads. Write mode = \"%04o\".", m, m&^0o022,
		)
	case others&^owner != 0:
		r.Warn(
			fault.WrongType, v.Range, "Others have more permissions than the owner",
			"Mode %04o gives the owner less than others. It is octal, in quotes: "+
				"mode = \"0644\" is 420 as a decimal number.", m,
		)
	}
}
