package detecthw

import (
	"strings"
	"testing"

	"github.com/prelet/prelet/internal/testing/table"
)

// TestUnitsThatNeverCome checks names that no wait can end for: each message names the unit and the next step.
func TestUnitsThatNeverCome(t *testing.T) {
	for name, want := range table.YAML[map[string]string](t, `
nvidia-fabricmanager: did you mean "nvidia-fabricmanager.service"?
nvidia-mig-parted.servce: has no suffix of a unit
'': is not the name of a unit
nvidia*.service: is not the name of a unit
.service: has no suffix of a unit
prelet: '"prelet.service" is a unit of prelet'
kubelet: did you mean "kubelet.service"?
openibd@.service: such as "openibd@1.service"
boot-complete.target: reached only after the kubelet
prelet.service: is a unit of prelet
prelet-verify.service: is a unit of prelet
multi-user.target: name the service that you need
nvidia-mig-parted.service: ''
network-online.target: ''
dev-nvidia0.device: ''
openibd@mlx5_0.service: ''
systemd-fsck@dev-sda.service: ''
`) {
		err := checkUnits([]string{"chronyd.service", name})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("unit %q: got %v, want %q", name, err, want)
		}
	}
}
