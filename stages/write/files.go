package write

import (
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/prelet/prelet/internal/fault"
	"github.com/prelet/prelet/internal/kubelet"
	"github.com/prelet/prelet/internal/lang/origin"
	"github.com/prelet/prelet/internal/lang/value"
	"github.com/prelet/prelet/internal/node"
	"github.com/prelet/prelet/schema"
)

// bootstrap renders what the kubelet joins with, as long as it has not joined. The token stands in it by name.
func (r *renderer) bootstrap() {
	b, ok := r.cfg.One("bootstrap_kubeconfig")
	if !ok || r.in.Kubelet.Joined {
		return
	}
	if r.undecided(b) || r.in.Unread.Kubelet {
		r.whole = false
		return
	}
	ca := bootCA.Of(b)
	server := bootServer.Of(b)
	const noToken, giveToken = "No token to join with", "%s has not joined, and the cluster block names no token. Write " +
		"token = credential(\"bootstrap-token\") there, or leave the file out: bootstrap_kubeconfig { when = false }."
	switch {
	case r.in.Check && r.in.Access.Token == "" && !ca.Null(): // whether a machine has joined is not known
		r.diags = append(r.diags, origin.Warning(fault.MissingArgument, b.Range, noToken, giveToken, "No plan is made for a node that"))
		return
	case !server.Cty.IsKnown() && !r.in.Check:
		r.whole = false
		return
	case !ca.Set(), server.V == "" && len(r.in.Access.Servers) == 0:
		r.whole = r.whole && ca.Cty.IsKnown() && server.Cty.IsKnown()
		return
	case r.in.Access.Token == "":
		r.fail(fault.MissingArgument, b.Range, noToken, giveToken, "The node")
		return
	}
	url := server.V
	if url == "" {
		url = r.in.Access.Servers[0]
	}
	if !strings.Contains(url, "://") {
		url = "https://" + url
	}
	token := value.Credential(r.in.Access.Token)
	u, _, _ := value.Plain(token)
	t, err := value.TextOf(cty.StringVal(kubelet.BootstrapKubeconfig(url, ca.V, u.AsString())).WithMarks(token.Marks()))
	if err != nil {
		r.fail(fault.Internal, b.Range, "The bootstrap kubeconfig cannot be rendered", "%s.", err)
		return
	}
	r.add(b, node.File{Path: bootPath.Of(b).V, Kind: node.Regular, Text: t, Mode: 0o600, Purpose: "bootstrap-kubeconfig", OutsideHash: true, Origins: place(r.in.Address, b.Range)})
}

func (r *renderer) ca() {
	b, ok := r.cfg.One("ca_certificate")
	if !ok {
		return
	}
	v := caContent.Of(b)
	if !v.Set() || r.undecided(b) {
		r.whole = r.whole && v.Cty.IsKnown() && !r.undecided(b)
		return
	}
	if !strings.Contains(v.V, "-----BEGIN CERTIFICATE-----") {
		r.fail(fault.WrongType, v.Range, "This is no certificate", "A PEM text is needed: -----BEGIN CERTIFICATE-----.")
		return
	}
	text := v.V
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	from := v.Origins()
	if len(from) == 0 {
		from = place(r.in.Address, b.Range)
	}
	r.add(b, node.File{Path: caPath.Of(b).V, Kind: node.Regular, Text: value.PlainText(text), Mode: 0o644, Purpose: "ca", Origins: from})
}

// files renders the blocks that a site adds.
func (r *renderer) files() {
	for _, b := range r.cfg.Blocks["file"] {
		p, c := filePath.Of(b), fileContent.Of(b)
		u, _, unread := value.Plain(c.Cty)
		switch {
		case len(unread) > 0:
			r.diags, r.whole = append(r.diags, origin.NotRead(c.Range, "file "+b.Labels[0], unread)), false
			continue
		case !p.Set() && p.Cty.IsKnown():
			r.fail(fault.PathInvalid, p.Range, "The path is null", "file %q has no path on this machine. Write when = … beside it.", b.Labels[0])
			continue
		case !u.IsKnown() || !p.Cty.IsKnown() || !fileMode.Of(b).Cty.IsKnown() || !fileOwner.Of(b).Cty.IsKnown() || !createOnly.Of(b).Cty.IsKnown() || r.undecided(b):
			r.whole = false
			continue
		case u.IsNull():
			r.fail(fault.WrongType, c.Range, "The content is null", "file %q: a text is needed. Write when = … beside it, or \"\" for an empty file.", b.Labels[0])
			continue
		}
		t, err := value.TextOf(c.Cty)
		if err != nil {
			r.fail(fault.WrongType, c.Range, "The content must be a string", "file %q: this is %s. Encode it: yamlencode(…) or jsonencode(…).", b.Labels[0], schema.Article(u.Type()))
			continue
		}
		r.warnMode(fileMode.Of(b))
		f := node.File{Path: p.V, Kind: node.Regular, Text: t, Mode: mode(fileMode.Of(b)), Owner: fileOwner.Of(b).V, OwnerRange: fileOwner.Of(b).Range, CreateOnly: createOnly.Of(b).V, Notify: notify(fileNotify.Of(b)), Purpose: "file", Origins: c.Origins()}
		if len(t.Secrets()) > 0 {
			if f.Mode&0o077 != 0 {
				r.diags = append(r.diags, origin.Warning(fault.Sensitive, fileMode.Of(b).Range, "Others could read a secret", "file %q holds one, and its mode lets others read it. It is written 0600; write that.", b.Labels[0]))
			}
			f.Mode = 0o600
		}
		r.add(b, f)
	}
	for _, b := range r.cfg.Blocks["directory"] {
		p := dirPath.Of(b)
		switch {
		case !p.Cty.IsKnown() || !dirMode.Of(b).Cty.IsKnown() || !dirOwner.Of(b).Cty.IsKnown() || r.undecided(b):
			r.whole = false
		case !p.Set():
			r.fail(fault.PathInvalid, p.Range, "The path is null", "directory %q has no path on this machine. Write when = … beside it.", b.Labels[0])
		default:
			r.warnMode(dirMode.Of(b))
			f := node.File{Path: p.V, Kind: node.Directory, Mode: mode(dirMode.Of(b)), Owner: dirOwner.Of(b).V, OwnerRange: dirOwner.Of(b).Range, Notify: notify(dirNotify.Of(b)), Purpose: "directory", Origins: p.Origins()}
			r.checkSystemFolder(b, f)
			r.add(b, f)
		}
	}
}

// systemFolders are there on every machine: all users need them, and root reads what lies there.
var systemFolders = []string{"/etc", "/etc/pki", "/etc/ssl", "/etc/systemd", "/run", "/tmp", "/usr", "/usr/bin", "/usr/lib",
	"/usr/local", "/usr/sbin", "/var", "/var/lib", "/var/tmp"}

// sharedFolders are there as well, and a group writes there on many machines, as syslog to /var/log.
var sharedFolders = []string{"/boot", "/home", "/opt", "/srv", "/var/cache", "/var/log"}

// checkSystemFolder refuses a mode or an owner with which other users would lose a folder of the system, or could replace
// what is in it. f is the folder, b its block.
func (r *renderer) checkSystemFolder(b schema.Body, f node.File) {
	isShared := slices.Contains(sharedFolders, f.Path)
	if !isShared && !slices.Contains(systemFolders, f.Path) {
		return
	}
	m := dirMode.Of(b)
	if m.Set() && !isShared && f.Mode&0o755 != 0o755 {
		r.fail(fault.PathInvalid, m.Range, "Others need "+f.Path, "Mode %04o takes this folder of the system away from services that are not root. Leave mode out, or name a folder below it.", f.Mode)
	}

	if isShared {
		f.Owner = "" // may be any
	}
	isSticky := isShared || f.Path == "/tmp" || f.Path == "/var/tmp"
	who, at, _ := node.WhoReplaces(f, isSticky)
	switch {
	case who == "":
	case at.Filename == "":
		r.fail(fault.PathInvalid, m.Range, f.Path+" is root's", "With this mode, %s could replace what is in this folder of the system. Leave mode out, or name a folder below it.", who)
	default:
		r.fail(fault.PathInvalid, at, f.Path+" is root's", "With this owner, %s could replace what is in this folder of the system. Leave owner out, or name a folder below it.", who)
	}
}

// warnMode warns about a mode that is hardly meant: everyone may write, or others may what the owner may not. A number
// without quotes is taken as the digits that it has.
func (r *renderer) warnMode(v schema.Value[string]) {
	m := mode(v)
	owner, others := m>>6&7, m>>3&7|m&7
	switch {
	case !v.Set() || m&0o1000 != 0:
	case m&0o002 != 0:
		r.diags = append(r.diags, origin.Warning(fault.WrongType, v.Range, "Everyone could write it",
			"Mode %04o lets every user change what root reads. Write mode = \"%04o\".", m, m&^0o022))
	case others&^owner != 0:
		r.diags = append(r.diags, origin.Warning(fault.WrongType, v.Range, "Others may more than the owner",
			"Mode %04o gives the owner less than others. It is octal, in quotes: mode = \"0644\" is 420 as a decimal number.", m))
	}
}
