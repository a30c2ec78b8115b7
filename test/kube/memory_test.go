package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

const (
	memoryState   = "/var/lib/kubelet/memory_manager_state"
	otherMachine  = "the expected machine state is different from the real one"
	brokenState   = "could not restore state from checkpoint"
	memoryManager = `
stage "detect-hw" "node" {}
stage "reserve" "node" {
  policy         = "static"
  memory_manager = "Static"
  static {
    cpu    = 2
    memory = "16Gi"
  }
}
stage "write" "kubelet" {
  kubelet_config { patch = { systemReserved = { memory = "333M" }, cgroupsPerQOS = false, enforceNodeAllocatable = []%s } }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`
)

// memoryMachine returns the tree of a recorded machine with two processors and 34 NUMA nodes without one, as GB200 has
// them: four with memory, and thirty without. Its first node has 5 GiB besides huge pages. lost is how many KiB fewer
// the first node has than in another boot.
func memoryMachine(t *testing.T, lost int) string {
	t.Helper()
	tree := t.TempDir() + "/machine"
	from, err := filepath.Abs("../../bin/machines/two-sockets")
	must(t, err)
	if out, err := exec.Command("cp", "-a", from, tree).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s; make machines", err, out)
	}

	const size = 395500000 // KiB of each node with CPUs
	pages := size>>20 - 5
	nodes := tree + "/sys/devices/system/node/node"
	write := func(path, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	meminfo := func(node, kib int) string {
		return fmt.Sprintf("Node %d MemTotal:       %d kB\nNode %d MemFree:        %d kB\n", node, kib, node, kib/2)
	}
	write(nodes+"0/meminfo", meminfo(0, size-lost))
	write(nodes+"0/hugepages/hugepages-1048576kB/nr_hugepages", fmt.Sprintln(pages))
	write(nodes+"1/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
	write(tree+"/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", fmt.Sprintln(pages))
	total := 2*size - lost
	for node := 2; node < 36; node++ {
		kib := 0
		if node < 6 {
			kib = 97517568
		}
		total += kib
		write(fmt.Sprint(nodes, node, "/meminfo"), meminfo(node, kib))
		write(fmt.Sprint(nodes, node, "/cpulist"), "\n")
	}

	text, err := os.ReadFile(tree + "/proc/meminfo")
	must(t, err)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "MemTotal:") {
			lines[i] = fmt.Sprintf("MemTotal:       %d kB", total)
		}
	}
	write(tree+"/proc/meminfo", strings.Join(lines, "\n"))

	return tree
}

// checkMemoryState fails unless the kubelet's own state has all NUMA nodes, and on each what remains of its memory.
func checkMemoryState(t *testing.T, n *Node, wantReserved uint64) {
	t.Helper()
	text, err := n.Read(memoryState)
	must(t, err)
	var doc state.MemoryManagerCheckpoint
	must(t, json.Unmarshal([]byte(text), &doc))
	must(t, json.Unmarshal([]byte(doc.Data), &doc.CheckpointData))

	reserved := uint64(0)
	for id, node := range doc.CheckpointData.MachineState {
		used := uint64(0)
		for name, table := range node.MemoryMap {
			if name != "memory" {
				used += table.TotalMemSize
			}
		}
		table := node.MemoryMap["memory"]
		reserved += table.SystemReserved
		if table.SystemReserved+used+table.Allocatable != table.TotalMemSize || table.Allocatable > table.TotalMemSize {
			t.Errorf("NUMA node %d: got %+v and %d bytes of huge pages, want the rest to be allocatable", id, *table, used)
		}
	}
	if got := len(doc.CheckpointData.MachineState); got != 36 || reserved != wantReserved {
		t.Errorf("got %d NUMA nodes with %d bytes reserved, want 36 with %d", got, reserved, wantReserved)
	}
}

// dies starts the kubelet by hand and waits for these words in the log of this boot.
func dies(t *testing.T, n *Node, words string) {
	t.Helper()
	must(t, n.OpenGate())
	must(t, n.Write("/var/log/kubelet.log", "", 0o644))
	_ = n.Systemctl(t.Context(), "start")
	must(t, waitFor(t.Context(), 30*time.Second, "the kubelet dies", func() string {
		if !strings.Contains(n.KubeletLog(), words) {
			return "its log does not have " + words + "\n" + last(n.KubeletLog(), 1000)
		}
		return ""
	}))
}

// TestMemoryManager has a machine with 36 NUMA nodes, most of them without a processor, and one that is nearly full of
// huge pages: the real kubelet accepts reservedMemory to the byte. At later boots the machine has some KiB less, or the
// state is of another machine with a right checksum, or it is garbage: the kubelet dies, and prelet, which runs
// before it, removes the state.
func TestMemoryManager(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	o := NodeOptions{Hardware: memoryMachine(t, 0), MachineID: strings.Repeat("5e", 16)}
	m := newMember(t, c, o, fmt.Sprintf(memoryManager, ""))
	const reserved = 16<<30 + 333_000_000 + 100<<20
	checkMemoryState(t, m.Node, reserved)
	running, err := c.Configz(t.Context(), m.Node)
	must(t, err)
	t.Logf("the kubelet runs with %v and %v", running["memoryManagerPolicy"], running["reservedMemory"])
	if r := m.run(0, "-o", "json"); !strings.Contains(r.Out, `"changed":false`) {
		t.Errorf("a run with nothing to do: got %s; want text with `\"changed\":false`", r)
	}

	repaired := func(why string) {
		t.Helper()
		must(t, m.StopKubelet(t.Context()))
		r := prelet(t, m.Node, 0, "plan")
		if !strings.Contains(strings.Join(strings.Fields(r.Out), " "), why) {
			t.Errorf("the plan: got %s; want text with %q", r, why)
		}
		m.run(0)
		must(t, m.Systemctl(t.Context(), "start"))
		m.run(0)
		checkMemoryState(t, m.Node, reserved)
		if r := m.run(0, "-o", "json"); !strings.Contains(r.Out, `"changed":false`) {
			t.Errorf("a run with nothing to do: got %s; want text with `\"changed\":false`", r)
		}
	}

	// A reboot with 4 KiB less.
	must(t, m.StopKubelet(t.Context()))
	o.Hardware, o.Clone = memoryMachine(t, 4), m.Node
	n := newNode(t, c, o, "10.0.0.11:6443")
	m.Node.Stop()
	m = member{n, t, c, m.pin}
	journal(t, n)
	dies(t, n, otherMachine)
	if j := downAndSays(t, n); j.Cause.ID != "memory-state" {
		t.Errorf("got the cause %+v, want memory-state", j.Cause)
	}
	repaired("NUMA node 0 had 404992000000 bytes of memory when it was made, and has 404991995904 in this boot")

	// The state of a machine with 8 KiB more on another node, as the kubelet itself writes it.
	must(t, m.StopKubelet(t.Context()))
	store, err := state.NewCheckpointState(
		klog.Background(), m.Root()+filepath.Dir(memoryState), filepath.Base(memoryState), "Static",
	)
	must(t, err)
	machine := store.GetMachineState()
	table := machine[1].MemoryMap["memory"]
	table.TotalMemSize += 8192
	table.Allocatable += 8192
	table.Free += 8192
	store.SetMachineState(machine)
	dies(t, n, otherMachine)
	repaired("NUMA node 1 had 404992008192 bytes of memory when it was made, and has 404992000000 in this boot")

	// Garbage.
	must(t, m.StopKubelet(t.Context()))
	must(t, m.Write(memoryState, "\x00\x00garbage", 0o600))
	dies(t, n, brokenState)
	if j := downAndSays(t, n); j.Cause.ID != "state-broken" {
		t.Errorf("got the cause %+v, want state-broken", j.Cause)
	}
	repaired("it is not a state that the kubelet can read")

	// A threshold in percent counts to the byte.
	m.site(fmt.Sprintf(memoryManager, `, evictionHard = { "memory.available" = "0.7%" }`))
	m.drained()
	running, err = c.Configz(t.Context(), m.Node)
	must(t, err)
	t.Logf("the kubelet runs with %v", running["reservedMemory"])
}

// TestLoggedConfig: the kubelet logs the configuration that it runs with, and the verdict compares it without any
// credential. A flag that prelet does not know is reported, and nothing is rolled back.
func TestLoggedConfig(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	n := newNode(t, c, NodeOptions{}, "10.0.0.11:6443")
	pin, err := c.Pin()
	must(t, err)
	m := member{n, t, c, pin}
	must(t, n.Credential("bootstrap-token", c.Token))
	journal(t, n)
	m.site(`stage "write" "kubelet" {
  kubelet_config { patch = { maxPods = 64, evictionHard = { "memory.available" = "200Mi" }, kubeReserved = { cpu = "100m", memory = "0.25Gi" }, syncFrequency = "90s", reservedSystemCPUs = "0" } }
}
stage "restart" "kubelet" {
  verify {
    settle  = "1s"
    timeout = "40s"
  }
}
`)
	r := prelet(t, n, 0, "run", "-o", "json")
	if !strings.Contains(r.Out, `{"name":"config","state":"ok"}`) {
		t.Errorf("got %s; want text with `{\"name\":\"config\",\"state\":\"ok\"}`", r)
	}

	must(t, n.Write("/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=--max-pods=32\n", 0o644))
	must(t, n.Systemctl(t.Context(), "restart"))
	must(t, waitFor(t.Context(), 20*time.Second, "the kubelet listens", func() string {
		if _, err := c.AskKubelet(t.Context(), n, "/healthz"); err != nil {
			return err.Error()
		}
		return ""
	}))
	if state, message := verify(t, n, 0).state("config"); state != "drift" ||
		!strings.Contains(message, "maxPods is 32 and not 64") {
		t.Errorf("got %s: %s; want state \"drift\" and text with \"maxPods is 32 and not 64\"", state, message)
	}

	// The journal was rotated: nothing is said.
	must(t, n.Write("/var/log/kubelet.log", "", 0o644))
	if state, message := verify(t, n, 0).state("config"); state != "" {
		t.Errorf("without the first lines: got %s: %s; want no check", state, message)
	}
}
