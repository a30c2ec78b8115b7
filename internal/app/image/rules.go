package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prelet/prelet/internal/platform/nodefile"
	"github.com/prelet/prelet/internal/probe"
	"github.com/prelet/prelet/internal/probe/joined"
	"github.com/prelet/prelet/internal/world"
)

const machineID = "/etc/machine-id"

// rule is a place in which a machine has something of its own.
type rule struct {
	pattern string // a path; * matches within a name
	check   string // of package doctor: identity, secrets or state
	action  Action
	why     string
	do      string
	// describe returns why the file must not be in an image, "" if it may be. Nil: it must not.
	describe  func(*nodefile.Look) (string, error)
	keepLinks bool // a link itself may stay
}

// apply returns why a file must not be in an image; "" if it may be.
func (r rule) apply(look *nodefile.Look) (string, error) {
	if r.describe != nil {
		return r.describe(look)
	}

	return r.why, nil
}

const (
	whyIdentity = "with it, each machine of this image is the same node, until prelet removes it at boot"
	whyRandom   = "machines with one seed may make the same keys"
	whyState    = "prelet would take it for the state of the machine that boots"
	whyStorage  = "a storage server would take all machines for one, and mix their writes"
	whyCNI      = "the addresses in it are of pods of the machine that made the image"
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
		{pattern: "/etc/ssh/ssh_host_*_key*.pub", why: "it belongs to a host key of the machine that made the image"},
		{pattern: "/var/lib/NetworkManager/secret_key", why: "machines with one key make the same addresses"},
		{pattern: "/var/lib/dhcpcd/duid", why: whyLease},
		{pattern: "/etc/dhcpcd.duid", why: whyLease},
		{pattern: "/var/lib/dhcpcd/secret", why: "machines with one key make the same addresses"},
		{pattern: "/var/lib/wicked/*duid.xml", why: whyLease},
		{pattern: "/etc/nvme/hostnqn", why: whyStorage},
		{pattern: "/etc/nvme/hostid", why: whyStorage},
		{pattern: "/etc/iscsi/initiatorname.iscsi", action: ByHand, describe: describeInitiator,
			do: "write GenerateName=yes into it (Debian, Ubuntu), or remove it, and iscsi-init.service makes a name"},
		{pattern: "/etc/openvswitch/system-id.conf", why: "a network controller would take all machines for one"},
		{pattern: "/etc/hostname", action: Keep, describe: o.describeHostname,
			do: "fine if DHCP, cloud-init or node { name = … } of the site names each machine; else remove it"},
	}
	secrets := []rule{
		{pattern: "/etc/kubernetes/*", describe: describeSecret(whySecret)},
		{pattern: "/etc/kubernetes/tmp/*", why: "kubeadm keeps copies of keys and kubeconfigs here"},
		{pattern: "/var/lib/kubelet/*kubeconfig*", describe: describeSecret(whySecret)},
		{pattern: "/etc/cni/net.d/*kubeconfig*", describe: describeSecret(whySecret)},
		{pattern: "/etc/cni/net.d/*/*kubeconfig*", describe: describeSecret(whySecret)},
		{pattern: "/root/.kube/config", describe: describeSecret(whySecret)},
		{pattern: "/home/*/.kube/config", describe: describeSecret(whySecret)},
		{pattern: "/var/lib/etcd/member", action: ByHand, why: "it is the database of a cluster, with all its Secrets",
			do: "if no cluster needs it any more, remove it yourself"},
		{pattern: "/etc/kubernetes/pki/*.key", why: "with this key, its finder is a control plane"},
		{pattern: "/etc/kubernetes/pki/etcd/*.key", why: "with this key its finder reads and writes etcd"},
		{pattern: "/etc/credstore/*", describe: o.describeCredential},
		{pattern: "/usr/lib/credstore/*", describe: o.describeCredential},
		{pattern: "/usr/local/lib/credstore/*", describe: o.describeCredential},
		{pattern: "/var/lib/systemd/credential.secret", why: "each machine could decrypt the credentials of all"},
		{pattern: "/var/lib/systemd/random-seed", why: whyRandom},
		{pattern: "/var/lib/urandom/random-seed", why: whyRandom},
		{pattern: "/var/lib/misc/random-seed", why: whyRandom},
		{pattern: "/var/lib/seedrng/*", why: whyRandom},
		{pattern: "/boot/loader/random-seed", why: whyRandom},
		{pattern: "/boot/efi/loader/random-seed", why: whyRandom},
		{pattern: "/efi/loader/random-seed", why: whyRandom},
	}
	state := []rule{
		{pattern: "/var/lib/prelet/*", describe: describeState},
		{pattern: "/var/lib/dhcp/*.lease*", why: whyLease},
		{pattern: "/var/lib/dhclient/*.lease*", why: whyLease},
		{pattern: "/var/lib/NetworkManager/*.lease", why: whyLease},
		{pattern: "/var/lib/dhcpcd/*.lease*", why: whyLease},
		{pattern: "/var/lib/wicked/lease*", why: whyLease},
		{pattern: "/var/lib/cni/networks/*", why: whyCNI},
		{pattern: "/var/lib/cni/results/*", why: whyCNI},
		{pattern: "/etc/lvm/devices/system.devices", why: "LVM would ignore every disk that is not in this list"},
		{pattern: "/var/lib/cloud/instance", why: whyCloud},
		{pattern: "/var/lib/cloud/instances/*", why: whyCloud},
		{pattern: "/var/lib/cloud/data/*", why: whyCloud},
		{pattern: "/var/lib/cloud/sem/*", why: whyCloud},
	}
	for _, dir := range append([]string{"/root", "/home/*", "/tmp", "/var/tmp"}, o.SiteFolders...) {
		state = append(state, rule{pattern: dir + "/*", describe: describeRecording})
	}

	out := withDefaults("identity", identity)
	out = append(out, withDefaults("secrets", slices.Concat(secrets, o.siteRules(), o.unitRules()))...)

	return append(out, withDefaults("state", state)...)
}

// siteRules returns the rules for files of the site. They are the image's own, so only a person may change them.
func (o Options) siteRules() (out []rule) {
	for _, dir := range o.SiteFolders {
		for _, pattern := range []string{dir + "/*", dir + "/*/*"} {
			out = append(out, rule{
				pattern:  pattern,
				action:   ByHand,
				describe: describeSecret(whySiteSecret),
				do:       "remove the secret from the file, and read it with credential(\"NAME\")",
			})
		}
	}

	return out
}

// unitRules returns the rules for drop-ins of prelet's and the kubelet's units, which only a person may change.
func (o Options) unitRules() (out []rule) {
	for _, dir := range []string{"/etc", "/usr/lib"} {
		for _, unit := range []string{"prelet*.service.d", "kubelet.service.d"} {
			out = append(out, rule{
				pattern:  dir + "/systemd/system/" + unit + "/*.conf",
				action:   ByHand,
				describe: o.describeUnit,
				do:       "remove the secret from the file, and give it to each machine as a credential",
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

func describeMachineID(look *nodefile.Look) (string, error) {
	if look.Mode()&fs.ModeSymlink != 0 {
		return "", nil
	}
	text, err := readText(look)
	if err == nil && (text == "" || text == "uninitialized") {
		return "", nil
	}

	return "all machines would have one id; by it prelet recognises a copied disk", err
}

// describeInitiator returns why a file of open-iscsi must not be in an image: it has a name instead of the request to
// make one.
func describeInitiator(look *nodefile.Look) (string, error) {
	text, err := readText(look)
	if !initiatorName.MatchString(text) {
		return "", err
	}

	return whyStorage, err
}

var initiatorName = regexp.MustCompile(`(?m)^\s*InitiatorName\s*=`)

// describeHostname returns why a host name should not be in an image. A name that identifies no machine may be.
func (o Options) describeHostname(look *nodefile.Look) (string, error) {
	if !look.Mode().IsRegular() {
		return "", nil
	}
	name := joined.Node{Root: o.Root, Recorded: true}.HostName()
	if name == "" {
		return "", nil
	}

	return "with it, each machine of this image is node " + strconv.Quote(name), nil
}

const (
	whySecret     = "it contains %s, which everybody who gets the image can use"
	whySiteSecret = "it contains %s, and each recording contains the site"
)

// describeSecret returns a function that describes a file with a secret. format has a %s for what it is.
func describeSecret(format string) func(*nodefile.Look) (string, error) {
	return func(look *nodefile.Look) (string, error) {
		text, err := readText(look)
		return describeText(format, text), err
	}
}

// describeText describes a text with a secret; "" if it has none.
func describeText(format, text string) string {
	what := probe.DescribeSecret(text)
	if what == "" {
		return ""
	}

	return fmt.Sprintf(format, what)
}

// isSecret reports whether a credential of prelet is a secret.
func (o Options) isSecret(credential string) bool {
	variable, isVariable := strings.CutPrefix(credential, "prelet.var.")

	return credential == "bootstrap-token" || isVariable && !o.IsPublic(variable)
}

// describeCredential returns why a credential of prelet must not be in a store of the image.
func (o Options) describeCredential(look *nodefile.Look) (string, error) {
	if !o.isSecret(path.Base(look.Path())) {
		return "", nil
	}

	return "everybody who gets the image can use this credential; give it to each machine instead", nil
}

var setCredential = regexp.MustCompile(`(?m)^\s*SetCredential\s*=\s*([^:\s]+):`)

// describeUnit returns why a drop-in must not be in an image: it sets a secret of prelet, or contains one.
func (o Options) describeUnit(look *nodefile.Look) (string, error) {
	text, err := readText(look)
	for _, match := range setCredential.FindAllStringSubmatch(text, -1) {
		if o.isSecret(match[1]) {
			return "it sets the credential " + match[1] + ", which everybody who gets the image can use", nil
		}
	}

	return describeText(whySecret, text), err
}

// describeState returns why a file of prelet's folder must not be in an image. The kubelet's output is of its binary,
// and the next boot checks that it is of the same file.
func describeState(look *nodefile.Look) (string, error) {
	if path.Base(look.Path()) == cacheName {
		return "", nil
	}

	return whyState, nil
}

// describeRecording returns why a recording or a bundle must not be in an image. A file with the name of a recording
// that cannot be decoded is an error: it may be damaged, or of a newer prelet.
func describeRecording(look *nodefile.Look) (string, error) {
	name := look.Path()
	switch {
	case !look.Mode().IsRegular():
		return "", nil
	case strings.HasSuffix(name, ".tar.gz"):
		return describeBundle(look)
	case !strings.HasSuffix(name, ".prelet") && !strings.HasSuffix(name, ".prelet.gz"):
		return "", nil
	}

	text, err := look.Read(maxText)
	if err != nil {
		return "", err
	}
	if _, err := world.Decode(bytes.NewReader(text)); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}

	return "it is the recording of a machine, with its addresses and the cluster's objects", nil
}

// bundleFolder contains all files of a bundle.
const bundleFolder = "prelet-bundle/"

// describeBundle returns why an archive must not be in an image if it is a bundle. It reads only the beginning, because
// another archive may be large.
func describeBundle(look *nodefile.Look) (string, error) {
	f, err := look.Open()
	if err != nil {
		return "", err
	}
	defer f.Close()

	text, err := gzip.NewReader(f)
	if err != nil {
		return "", nil // the file is not an archive
	}
	first, err := tar.NewReader(text).Next()
	if err != nil || !strings.HasPrefix(first.Name, bundleFolder) {
		return "", nil
	}

	return "it is the bundle of a machine, with its addresses, its journal and the cluster's objects", nil
}

func isPattern(name string) bool { return strings.Contains(name, "*") }

func splitPattern(pattern string) []string {
	return strings.Split(strings.TrimPrefix(pattern, "/"), "/")
}
