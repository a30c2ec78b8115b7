package image

import (
	"bytes"
	"io/fs"
	"path"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/world"
)

const machineID = "/etc/machine-id"

// rule is a place in which a machine has something of its own.
type rule struct {
	pattern string // a path; * matches within a name
	check   string // see checkNames
	action  Action
	why     string
	do      string
	// describe returns why the file must not be in an image, "" if it may be. Nil: it must not.
	describe  func(*nodefile.Look) string
	keepLinks bool // a link itself may stay
}

// apply returns why a file must not be in an image; "" if it may be.
func (r rule) apply(look *nodefile.Look) string {
	if r.describe != nil {
		return r.describe(look)
	}

	return r.why
}

const (
	whyIdentity = "with it, each machine of this image is the same node, until prelet removes it at boot"
	whyRandom   = "machines with one seed may make the same keys"
	whyState    = "prelet would take it for the state of the machine that boots"
	whyLease    = "two machines with one lease ask for one address"
	whyCloud    = "cloud-init would take it for the state of the machine that boots; user data may contain secrets"
)

// rules returns all places, besides the identity of the kubelet, which internal/probe/joined lists. Those of systemd
// are the list of https://systemd.io/BUILDING_IMAGES.
func (o Options) rules() []rule {
	identity := []rule{
		{pattern: "/var/lib/kubelet/pki/kubelet-client-current.pem", why: whyIdentity},
		{pattern: "/var/lib/kubelet/pki/kubelet-server-current.pem", why: whyIdentity},
		{pattern: machineID, action: Empty, describe: describeMachineID},
		{pattern: "/var/lib/dbus/machine-id", describe: describeMachineID, keepLinks: true},
		{pattern: "/etc/ssh/ssh_host_*_key", why: "all machines would have one host key"},
		{pattern: "/etc/ssh/ssh_host_*_key.pub", why: "it belongs to a host key of the machine that made the image"},
		{pattern: "/var/lib/NetworkManager/secret_key", why: "machines with one key make the same addresses"},
	}
	secrets := []rule{
		{pattern: "/etc/kubernetes/*.conf", describe: describeKubeconfig},
		{pattern: "/etc/kubernetes/pki/*.key", why: "with this key, its finder is a control plane"},
		{pattern: "/etc/kubernetes/pki/etcd/*.key", why: "with this key its finder reads and writes etcd"},
		{pattern: "/etc/credstore/*", describe: o.describeCredential},
		{pattern: "/usr/lib/credstore/*", describe: o.describeCredential},
		{pattern: "/var/lib/systemd/credential.secret", why: "each machine could decrypt the credentials of all"},
		{pattern: "/var/lib/systemd/random-seed", why: whyRandom},
		{pattern: "/boot/loader/random-seed", why: whyRandom},
		{pattern: "/boot/efi/loader/random-seed", why: whyRandom},
		{pattern: "/efi/loader/random-seed", why: whyRandom},
	}
	state := []rule{
		{pattern: "/var/lib/prelet/*", describe: describeState},
		{pattern: "/var/lib/dhcp/*.lease*", why: whyLease},
		{pattern: "/var/lib/dhclient/*.lease*", why: whyLease},
		{pattern: "/var/lib/NetworkManager/*.lease", why: whyLease},
		{pattern: "/var/lib/cloud/instance", why: whyCloud},
		{pattern: "/var/lib/cloud/instances/*", why: whyCloud},
		{pattern: "/var/lib/cloud/data/*", why: whyCloud},
		{pattern: "/var/lib/cloud/sem/*", why: whyCloud},
	}
	for _, dir := range append([]string{"/root", "/home/*", "/tmp", "/var/tmp"}, o.SiteFolders...) {
		state = append(state, rule{pattern: dir + "/*", describe: describeRecording})
	}

	out := withDefaults("identity", identity)
	out = append(out, withDefaults("secrets", append(secrets, o.siteRules()...))...)

	return append(out, withDefaults("state", state)...)
}

// siteRules returns the rules for files of the site. They are the image's own, so only a person may change them.
func (o Options) siteRules() (out []rule) {
	for _, dir := range o.SiteFolders {
		for _, pattern := range []string{dir + "/*", dir + "/*/*"} {
			out = append(out, rule{
				pattern:  pattern,
				action:   ByHand,
				describe: describeSiteSecret,
				do:       "remove the secret from the file, and read it with credential(\"NAME\")",
			})
		}
	}

	return out
}

func withDefaults(check string, rules []rule) []rule {
	for i := range rules {
		rules[i].check = check
		if rules[i].action == "" {
			rules[i].action = Delete
		}
	}

	return rules
}

func describeMachineID(look *nodefile.Look) string {
	if look.Mode()&fs.ModeSymlink != 0 {
		return ""
	}
	switch string(readText(look)) {
	case "", "uninitialized":
		return ""
	}

	return "all machines would have one id; by it prelet recognises a copied disk"
}

func describeKubeconfig(look *nodefile.Look) string {
	what := probe.DescribeSecret(string(readText(look)))
	if what == "" {
		return ""
	}

	return "it is " + what + ": everybody who gets the image can use it"
}

// describeCredential returns why a credential of prelet must not be in a store of the image.
func (o Options) describeCredential(look *nodefile.Look) string {
	name := path.Base(look.Path())
	variable, isVariable := strings.CutPrefix(name, "prelet.var.")
	isSecret := name == "bootstrap-token" || isVariable && !o.IsPublic(variable)
	if !isSecret {
		return ""
	}

	return "everybody who gets the image can use this credential; give it to each machine instead"
}

func describeSiteSecret(look *nodefile.Look) string {
	what := probe.DescribeSecret(string(readText(look)))
	if what == "" {
		return ""
	}

	return "it contains " + what + ", and each recording contains the site"
}

// describeState returns why a file of prelet's folder must not be in an image. The kubelet's output is of its binary,
// and the next boot checks that it is of the same file.
func describeState(look *nodefile.Look) string {
	if path.Base(look.Path()) == cacheName {
		return ""
	}

	return whyState
}

func describeRecording(look *nodefile.Look) string {
	if path.Ext(look.Path()) != ".prelet" {
		return ""
	}
	if _, err := world.Decode(bytes.NewReader(readText(look))); err != nil {
		return ""
	}

	return "it is the recording of a machine, with its addresses and the cluster's objects"
}

func isPattern(name string) bool { return strings.Contains(name, "*") }

func splitPattern(pattern string) []string {
	return strings.Split(strings.TrimPrefix(pattern, "/"), "/")
}
