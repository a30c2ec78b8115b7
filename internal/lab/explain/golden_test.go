package explain_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prelet/prelet/internal/testing/table"

	"github.com/prelet/prelet/internal/testing/osfile"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden compares what people see with what is written in testdata: one file for each example and machine.
func TestGolden(t *testing.T) {
	items := table.YAML[map[string][]string](t, `
gpu-training/dgx-h100:
  - label/accelerator
  - label/gpu.example.com/count
  - label/gpu.example.com/mig
  - label/fabric.example.com/ib0
  - label/fabric.example.com/ib9
  - label/nvidia.com/gpu.count
  - taint/nvidia.com/gpu
  - taint/hardware.example.com/incomplete
  - config/kubeReserved
  - config/reservedSystemCPUs
  - config/reservedMemory
  - config/clusterDNS
  - config/allowedUnsafeSysctls
  - config/registerWithTaints
  - flag/node-labels
  - file/etc/sysctl.d/90-hugepages.conf
  - file/etc/kubernetes/pki/ca.crt
  - file/etc/kubernetes/bootstrap-kubelet.conf
gpu-training/two-sockets: [label/accelerator, taint/nvidia.com/gpu]
legacy-vm/legacy-mt27710:
  - label/node.netease.com/pool
  - label/node.netease.com/port_id
  - label/network.netease.com/sriov-type
  - label/no.such/label
  - taint/node.netease.com/phase
  - config/address
  - flag/node-ip
  - flag/v
kubeadm/two-sockets:
  - label/site.example.com/network
  - label/topology.kubernetes.io/region
  - label/site.example.com/product
  - config/serializeImagePulls
layered/two-sockets:
  - label/topology.kubernetes.io/region
  - label/facility.example.com/power
  - taint/readiness.k8s.io/storage
  - config/kubeReserved.cpu
cloud/bare-vm:
  - flag/provider-id
  - flag/cloud-provider
  - flag/v
  - file/etc/kubernetes/cloud.conf
  - file/etc/default/kubelet
`)
	for _, e := range examples() {
		if items[e.name()] == nil {
			continue
		}
		t.Run(e.name(), func(t *testing.T) {
			p := e.plan(t)
			var b strings.Builder
			for _, word := range items[e.name()] {
				b.WriteString("$ prelet explain " + word + "\n" + text(t, explained(t, p, word)) + "\n")
			}
			for _, l := range strings.Split(b.String(), "\n") {
				if utf8.RuneCountInString(l) > 80 {
					t.Errorf("got %q, want at most 80 columns", l)
				}
			}
			osfile.Golden(t, filepath.Join("testdata", "golden", strings.ReplaceAll(e.name(), "/", "-")+".txt"), b.String(), *update)
		})
	}
}
