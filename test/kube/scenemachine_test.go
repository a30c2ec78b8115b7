package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"sigs.k8s.io/yaml"
)

// machine NAME [OPTION…]: makes a machine that has the bootstrap token and, at 10.0.0.11:6443, a door to the cluster;
// its kubelet waits for the gate. Or it makes an earlier machine the current one. Options are clone=NAME (its disk),
// again=NAME (that machine after another boot), hardware=FOLDER, containerd, driver=DRIVER (which its
// runtime reports), kubelet=FILE, kubeadm and no-door.
func (s *scene) cmdMachine(args []string) error {
	if n, ok := s.machines[args[0]]; ok {
		s.n = n
		return nil
	}
	o := NodeOptions{Name: args[0], Loopback: []string{"10.0.0.11", "10.0.0.12"}}
	container, driver := FakeRuntime, "cgroupfs"
	for _, option := range args[1:] {
		name, value, _ := strings.Cut(option, "=")
		switch name {
		case "clone":
			o.Clone = s.machines[value]
		case "again":
			o.Clone = s.machines[value]
			o.Name = o.Clone.Name
			id, err := o.Clone.Read("/etc/machine-id")
			must(s.t, err)
			o.MachineID = strings.TrimSpace(id)
		case "driver":
			driver = value
		case "hardware":
			o.Hardware = s.ts.MkAbs(value)
		case "kubelet":
			o.Kubelet = s.ts.MkAbs(value)
		case "kubeadm":
			o.Kubeadm = true
		case Containerd:
			container = Containerd
		}
	}
	s.n = nodeWith(s.t, s.c, container, driver, o)
	s.machines[args[0]] = s.n
	s.ts.Setenv("ROOT", s.n.Root())
	if !slices.Contains(args, "no-door") {
		if err := s.cmdDoor([]string{"10.0.0.11:6443"}); err != nil {
			return err
		}
	}

	return s.n.Credential("bootstrap-token", s.c.Token)
}

// off: the current machine is turned off for good. Each kubelet takes some of what the kernel has of inotify.
func (s *scene) cmdOff([]string) error {
	s.n.Stop()

	return nil
}

// site FILE…: the site has these files of the script and no other ones.
func (s *scene) cmdSite(args []string) error {
	files := map[string]string{}
	for _, name := range args {
		files[name] = s.text("@" + name)
	}

	return s.n.Site(files)
}

// node N ARGS…: a person runs prelet, which must exit with N. The secret of the token is never printed.
func (s *scene) cmdNode(args []string) error {
	began := time.Now()
	r, err := s.n.Prelet(context.WithoutCancel(s.t.Context()), args[1:]...)
	s.took = time.Since(began)
	if _, secret, _ := strings.Cut(s.c.Token, "."); strings.Contains(r.String(), secret) {
		err = errors.New("got the secret of the bootstrap token in the output, want it not printed")
	}

	return s.show(args[0], r, err)
}

// in N WORDS…: a command in the machine, which must exit with N.
func (s *scene) cmdIn(args []string) error {
	r, err := s.n.Run(context.WithoutCancel(s.t.Context()), args[1:]...)

	return s.show(args[0], r, err)
}

// put PATH TEXT|@FILE [MODE]: writes a file of the machine.
func (s *scene) cmdPut(args []string) error {
	mode, err := strconv.ParseUint(append(args, "644")[2], 8, 32)

	return errors.Join(err, s.n.Write(args[0], s.text(args[1]), os.FileMode(mode)))
}

// credential NAME [TEXT|@FILE]: gives prelet's units a credential, or takes it away.
func (s *scene) cmdCredential(args []string) error {
	return s.n.Credential(args[0], s.text(append(args, "")[1]))
}

// door ADDRESS [CLUSTER]: at this address the machine reaches the API server.
func (s *scene) cmdDoor(args []string) error {
	c := s.clusters[append(args, "")[1]]
	if c == nil {
		c = s.c
	}

	return s.doorTo(args[0], fmt.Sprintf("127.0.0.1:%d", c.Port))
}

// doorTo opens a door to an address outside.
func (s *scene) doorTo(address, to string) (err error) {
	s.doors[address], err = s.n.Door(address, to)

	return err
}

// shut ADDRESS: nothing answers at this address.
func (s *scene) cmdShut(args []string) error {
	s.doors[args[0]].Shut()

	return nil
}

// joins: prelet succeeds, and the kubelet joins the cluster through the site's first server.
func (s *scene) cmdJoins([]string) error {
	if err := s.cmdNode([]string{"0", "run"}); err != nil {
		return err
	}
	if err := s.cmdReady(nil); err != nil {
		return err
	}
	conf, err := s.n.Read("/etc/kubernetes/kubelet.conf")

	return errors.Join(
		err,
		wantText("stdout", s.last.Out, "healthy"),
		wantText("kubelet.conf", conf, "server: https://10.0.0.11:6443"),
	)
}

// fields FILE: shows the fields of a kubelet's configuration that are not zero. kubeadm writes zero values for fields
// that are not set.
func (s *scene) cmdFields(args []string) error {
	text, err := s.n.Read(args[0])
	var fields map[string]any
	err = errors.Join(err, yaml.Unmarshal([]byte(text), &fields))
	out, err2 := yaml.Marshal(dropZero(fields))

	return s.show("0", CommandResult{Out: string(out)}, errors.Join(err, err2))
}

func dropZero(v any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for name, field := range object {
		field = dropZero(field)
		inner, isObject := field.(map[string]any)
		if field == nil || field == "" || field == "0s" || field == 0.0 || isObject && len(inner) == 0 {
			delete(object, name)
		}
	}

	return object
}

// untouched: prelet has written nothing, and no kubelet runs.
func (s *scene) cmdUntouched([]string) error {
	for _, path := range []string{
		"/var/lib/kubelet/config.yaml", "/etc/kubernetes/bootstrap-kubelet.conf", "/etc/kubernetes/pki/ca.crt",
		"/etc/default/kubelet",
	} {
		if _, err := s.n.Read(path); err == nil {
			return fmt.Errorf("got %s, want it not written", path)
		}
	}
	if k, err := s.n.Service(s.t.Context()); err != nil || k.PID != 0 {
		return fmt.Errorf("kubelet: got %+v, %v; want it not to run", k, err)
	}

	return nil
}

// kubelet start|stop|restart: asks systemd.
func (s *scene) cmdKubelet(args []string) error {
	if args[0] == "stop" {
		return s.n.StopKubelet(s.t.Context())
	}

	return s.n.Systemctl(s.t.Context(), args[0])
}

// kubelet-log TEXT: the kubelet's log contains it.
func (s *scene) cmdKubeletLog(args []string) error {
	if log := s.n.KubeletLog(); !strings.Contains(log, args[0]) {
		return fmt.Errorf("the kubelet's log: got\n%s\nwant text with %q", last(log, 2000), args[0])
	}

	return nil
}

// reboot stops the kubelet and empties /run/prelet, and starts the kubelet, which waits for the gate.
func (s *scene) cmdReboot([]string) error {
	return errors.Join(
		s.n.StopKubelet(s.t.Context()), os.RemoveAll(s.n.Root()+"/run/prelet"), s.n.WantKubelet(s.t.Context()),
	)
}

// snapshot: for `same`.
func (s *scene) cmdSnapshot([]string) (err error) {
	s.disk, err = s.n.disk()

	return err
}

// same: nothing was written since `snapshot`.
func (s *scene) cmdSame([]string) error {
	now, err := s.n.disk()
	if d := cmp.Diff(s.disk, now); err == nil && d != "" {
		err = fmt.Errorf("files (-want +got):\n%s", d)
	}

	return err
}

// journal: journalctl of the machine prints the kubelet's log.
func (s *scene) cmdJournal([]string) error { return journal(s.n) }

// containerd start DRIVER|start-other DRIVER|stop: what Debian's containerd does, with a cgroup driver.
func (s *scene) cmdContainerd(args []string) error {
	switch args[0] {
	case "start":
		return s.n.StartContainerd(s.t.Context(), args[1])
	case "start-other":
		return s.n.StartOtherContainerd(s.t.Context(), args[1])
	}

	return s.n.StopContainerd(s.t.Context())
}

// image SOCKET ENTRYPOINT [PATH=FILE…]: a runtime has an image localhost/pause:1 with programs of this machine, which
// serves as that of a sandbox, too.
func (s *scene) cmdImage(args []string) error {
	var files [][2]string
	for _, word := range args[2:] {
		to, from, _ := strings.Cut(word, "=")
		files = append(files, [2]string{to, s.ts.ReadFile(from)})
	}
	err := s.n.Write("/run/image.tar", image(s.t, PauseImage, strings.Fields(args[1]), files...), 0o644)
	words := []string{"0", "ctr", "-a", args[0], "-n", "k8s.io", "images", "import", "/run/image.tar"}

	return errors.Join(err, s.cmdIn(words))
}

// journal replaces journald on a node without it: journalctl prints the lines of the kubelet's log in the export format,
// each with the monotonic time of its own time, or of the line before. In another format it prints the lines of one
// process, by the number in each of its lines.
func journal(n *Node) error {
	return n.Write("/usr/local/bin/journalctl", `#!/bin/sh
for word; do case $word in --output=export) export=1;; _PID=*) pid=${word#_PID=};; esac; done
[ -n "$export" ] || exec awk -v pid="$pid" '/^[IWEF][0-9][0-9][0-9][0-9] / { own = $3 == pid } own' /var/log/kubelet.log
read -r up _ </proc/uptime
exec awk -v up="$up" -v now="$(date +%H:%M:%S.%N)" '
	function seconds(time, part) { split(time, part, ":"); return part[1] * 3600 + part[2] * 60 + part[3] }
	/^[IWEF][0-9][0-9][0-9][0-9] / {
		ago = seconds(now) - seconds($2)
		if (ago < 0) ago += 86400
		at = (up - ago) * 1000000
	}
	{ printf "__CURSOR=%d\n__MONOTONIC_TIMESTAMP=%.0f\nMESSAGE=%s\n\n", NR, at, $0 }' /var/log/kubelet.log
`, 0o755)
}

// image returns an archive, as docker save makes it, of an image with these files, as pairs of path and content. The
// sandbox of an image without its program never starts.
func image(t testing.TB, name string, entrypoint []string, files ...[2]string) string {
	t.Helper()
	archive := func(files ...[2]string) string {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}))
			_, err := w.Write([]byte(f[1]))
			must(t, err)
		}
		must(t, w.Close())
		return b.String()
	}
	object := func(v any) string {
		b, err := json.Marshal(v)
		must(t, err)
		return string(b)
	}
	layer := archive(files...)
	return archive(
		[2]string{"layer.tar", layer},
		[2]string{
			"config.json",
			object(map[string]any{
				"architecture": runtime.GOARCH,
				"os":           "linux",
				"config":       map[string]any{"Entrypoint": entrypoint},
				"rootfs": map[string]any{
					"type":     "layers",
					"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(layer)))},
				},
			}),
		},
		[2]string{
			"manifest.json",
			object(
				[]map[string]any{
					{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}},
				},
			),
		},
	)
}

const memoryState = "/var/lib/kubelet/memory_manager_state"

// memory-machine FOLDER LOST: makes the tree of a recorded machine with two processors and 34 NUMA nodes without one,
// as GB200 has them: four with memory, and thirty without. Its first node has 5 GiB besides huge pages, less LOST KiB.
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

// memory-state BYTES: the kubelet's own state has all NUMA nodes, on each what remains of its memory, and so much
// reserved in all.
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
			return fmt.Errorf("NUMA node %d: got %+v and %d of huge pages, want the rest allocatable", id, *table, used)
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
