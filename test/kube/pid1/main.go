// Command pid1 sets up a test node, and becomes its systemd. Started in new namespaces, it
//
//   - lays a tmpfs over the Debian of test/boot/image.sh, so that every write is the node's;
//   - takes a control group of its own in each hierarchy, which is the root of what the node sees;
//   - gives the node its own network, host name and machine id, and, where asked, the processors, memory and devices of a
//     recorded machine;
//   - executes that systemd with no units but empty targets, so it starts in a few milliseconds; the harness adds
//     kubelet.service.
//
// It writes nothing outside of its own mounts and control groups. When it is killed, the kernel ends all processes of
// the node and removes mounts and network; empty control groups are left for the caller.
//
//	pid1 CONFIG.json    and a pipe as descriptor 3, which it writes "ready\n" to
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// config describes the node. The harness has the same type.
type config struct {
	Base      string            `json:"base"`       // the folder of a Debian, which is not changed
	Disk      string            `json:"disk"`       // an empty folder: the node's tmpfs and its root are mounted in it
	CgroupOf  string            `json:"cgroup"`     // name of the control group
	Hostname  string            `json:"hostname"`   //
	MachineID string            `json:"machine_id"` //
	Address   string            `json:"address"`    // of eth0, with its prefix length
	Loopback  []string          `json:"loopback"`   // further addresses of lo
	Files     map[string]string `json:"files"`      // path in the node: path of a program outside
	// Another node's root, whose disk this one begins with; "" for a fresh one.
	Copy     string `json:"copy"`
	Hardware string `json:"hardware"` // tree of a recorded machine; "" is the machine below
}

func main() {
	fmt.Fprintln(os.Stderr, "pid1:", run())
	os.Exit(1)
}

// run does not return, except with an error.
func run() error {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	if os.Getenv(inside) == "" {
		return beginInside(c)
	}
	if err := os.Unsetenv(inside); err != nil {
		return err
	}
	ready := os.NewFile(3, "ready")
	syscall.CloseOnExec(3)
	if err := makeRoot(c); err != nil {
		return err
	}
	if err := network(c); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if err := units(); err != nil {
		return err
	}
	if _, err := ready.WriteString("ready\n"); err != nil {
		return err
	}
	words := []string{"/usr/lib/systemd/systemd", "--unit=node.target", "--log-target=console", "--show-status=no"}
	environment := []string{"container=prelet", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

	return fmt.Errorf("exec: %w", syscall.Exec(words[0], words, environment))
}

// units writes the node's target and those that a service needs, empty. There is no journal: the output of a service is
// in a file of its name.
func units() error {
	const folder = "/usr/lib/systemd/system"
	for _, name := range []string{"node", "sysinit", "basic", "shutdown"} {
		text := "[Unit]\nDefaultDependencies=no\n"
		if err := os.WriteFile(filepath.Join(folder, name+".target"), []byte(text), 0o644); err != nil {
			return err
		}
	}

	log := "[Service]\nStandardOutput=append:/var/log/%N.log\nStandardError=inherit\n"

	return os.WriteFile(folder+"/service.d/10-log.conf", []byte(log), 0o644)
}

// inside is set in the program that begins again in the node's own control groups.
const inside = "PRELET_NODE_INSIDE"

// beginInside goes into control groups of the node's own, and begins again: their namespace is that of one thread
// until then, and the kubelet would be started by any.
func beginInside(c config) error {
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("a private tree of mounts: %w", err)
	}
	if err := enterCgroups(c.CgroupOf); err != nil {
		return err
	}
	return fmt.Errorf(
		"exec: %w",
		syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), inside+"=1")),
	)
}

// network gives the node an eth0 that has a carrier and leads nowhere, and a default route, without which a kubelet
// finds no address of its own. The cluster is reached over the loopback.
func network(c config) error {
	commands := [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "eth0", "type", "veth", "peer", "name", "eth0-peer"},
		{"link", "set", "eth0-peer", "up"},
		{"addr", "add", c.Address, "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		{"route", "add", "default", "dev", "eth0"},
	}
	for _, a := range c.Loopback {
		commands = append(commands, []string{"addr", "add", a + "/32", "dev", "lo"})
	}
	for _, args := range commands {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1\n"), 0o600) // as on nodes with pods
}
