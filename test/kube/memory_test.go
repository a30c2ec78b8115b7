package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
)

const memoryState = "/var/lib/kubelet/memory_manager_state"

// memory-machine FOLDER LOST: makes the tree of a recorded machine with two processors and 34 NUMA nodes without one, as
// GB200 has them: four with memory, and thirty without. Its first node has 5 GiB besides huge pages, less LOST KiB.
func (s *scene) cmdMemoryMachine(args []string) error {
	t, tree := s.t, filepath.Join(s.work, args[0])
	lost, err := strconv.Atoi(args[1])
	must(t, err)
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

	return nil
}

// memory-state BYTES: the kubelet's own state has all NUMA nodes, on each what remains of its memory, and so much reserved
// in all.
func (s *scene) cmdMemoryState(args []string) error {
	text, err := s.n.Read(memoryState)
	var doc state.MemoryManagerCheckpoint
	err = errors.Join(err, json.Unmarshal([]byte(text), &doc))
	if err := errors.Join(err, json.Unmarshal([]byte(doc.Data), &doc.CheckpointData)); err != nil {
		return err
	}

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
			return fmt.Errorf("NUMA node %d: got %+v and %d bytes of huge pages, want the rest allocatable", id, *table, used)
		}
	}
	if got := len(doc.CheckpointData.MachineState); got != 36 || fmt.Sprint(reserved) != args[0] {
		return fmt.Errorf("got %d NUMA nodes with %d bytes reserved, want 36 with %s", got, reserved, args[0])
	}

	return nil
}

// add-memory BYTES: in the kubelet's own state the second NUMA node has more memory. The checksum is right.
func (s *scene) cmdAddMemory(args []string) error {
	more, err := strconv.ParseUint(args[0], 10, 64)
	store, err2 := state.NewCheckpointState(
		klog.Background(), s.n.Root()+filepath.Dir(memoryState), filepath.Base(memoryState), "Static",
	)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	machine := store.GetMachineState()
	table := machine[1].MemoryMap["memory"]
	table.TotalMemSize += more
	table.Allocatable += more
	table.Free += more
	store.SetMachineState(machine)

	return nil
}
