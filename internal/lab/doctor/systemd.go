package doctor

import (
	"fmt"
	"strings"

	"github.com/prelet/prelet/internal/model/check"
)

// OldestSystemd is the oldest version of systemd that is supported.
const OldestSystemd = 249

// SystemdUse is something of systemd that prelet or a vendor's detector uses, and that older versions lack.
type SystemdUse struct {
	Since   int
	What    string
	Instead string // with an older version
}

// ListSystemdUses returns the features that versions from OldestSystemd on may lack. A page has the same table.
func ListSystemdUses() []SystemdUse {
	return []SystemdUse{
		{250, "encrypted credentials", "the token is a plain file"},
		{251, "credentials from fw_cfg and the kernel command line", "the provisioner writes a file"},
		{251, "the search of `LoadCredential=NAME` in `/etc/credstore`", "prelet searches it, `/run` and `/usr/lib`"},
		{252, "credentials from SMBIOS", "the provisioner writes a file"},
		{252, "system extensions for any distribution (`ID=_any`)", "the package"},
		{254, "`ImportCredential=prelet.var.*`", "`LoadCredential=prelet.var.NAME` in a drop-in"},
		{256, "LLDP neighbours by a socket", "the detector `lldp` reads `/run/systemd/netif/lldp`"},
	}
}

// checkSystemd reports the features that this version of systemd lacks. No boot fails by that alone.
func (in *Observations) checkSystemd(r *check.Recorder) {
	var version int
	if _, err := fmt.Sscanf(strings.Trim(in.Version, `"v`), "%d", &version); err != nil {
		return
	}
	if version < OldestSystemd {
		text := fmt.Sprintf("systemd %d is older than %d", version, OldestSystemd)
		r.Warn(text, "prelet is not supported with it", "")
	}

	for _, u := range ListSystemdUses() {
		if version < u.Since {
			text := fmt.Sprintf("systemd %d lacks %s (%d): %s", version, u.What, u.Since, u.Instead)
			r.Report(check.OK, strings.ReplaceAll(text, "`", ""), "", "")
		}
	}
	r.Fine(fmt.Sprintf("systemd %d", version))
}
