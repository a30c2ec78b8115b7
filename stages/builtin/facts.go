package builtin

import "github.com/prelet/prelet/schema"

// facts says what each place of the tree that detect-hw finds holds, in the order of the reference. Its types come
// from the stage.
func facts() []schema.Fact {
	return []schema.Fact{
		{Path: "cpu", Doc: "What computes."},
		{Path: "cpu.vendor", Doc: "As the kernel prints it: `GenuineIntel`, `AuthenticAMD`; of Arm as `lscpu` does: `ARM`, `Ampere`."},
		{Path: "cpu.model", Doc: "As the kernel prints it: `Intel(R) Xeon(R) Platinum 8480+`; of Arm as `lscpu` does: `Neoverse-N1`. For a label: `slug(…)`."},
		{Path: "cpu.logical", Doc: "How many threads are online."},
		{Path: "cpu.offline", Doc: "Threads that are there and switched off, by the kernel's numbers."},
		{Path: "cpu.smt", Doc: "Whether a core runs several threads now (Hyper-Threading)."},
		{Path: "cpu.cores", Doc: "The physical cores, in the order of their first thread."},
		{Path: "cpu.cores[].node", Doc: "The NUMA node."},
		{Path: "cpu.cores[].package", Doc: "The socket."},
		{Path: "cpu.cores[].kind", Doc: "`performance`, `efficient` or `low-power`; null where the kernel tells no kinds apart, as on servers."},
		{Path: "cpu.cores[].cpus", Doc: "The core's online threads, by the kernel's numbers."},

		{Path: "memory", Doc: "The machine's memory."},
		{Path: "memory.total_bytes", Doc: "MemTotal of the kernel: what it manages, a little less than what is plugged in."},
		{Path: "memory.hugepages", Doc: "How many pages are set aside, by size as Kubernetes writes it: `2Mi`, `1Gi`."},

		{Path: "numa", Doc: "The memory nodes. A machine without NUMA has node 0."},
		{Path: "numa[].id", Doc: "The kernel's number."},
		{Path: "numa[].cpus", Doc: "Online threads near it."},
		{Path: "numa[].memory_bytes", Doc: "Its memory."},
		{Path: "numa[].hugepages", Doc: "As `memory.hugepages`, of this node."},

		{Path: "accelerators", Doc: "GPUs and their kin. A board's management chip is none."},
		{Path: "accelerators[].kind", Doc: "`gpu`, `npu`, `fpga` or `dpu`."},
		{Path: "accelerators[].vendor", Doc: "Lower case: `nvidia`, `amd`, `intel`."},
		{Path: "accelerators[].name", Doc: "As the vendor prints it: `NVIDIA H100 80GB HBM3`."},
		{Path: "accelerators[].model", Doc: "The name without the vendor."},
		{Path: "accelerators[].device", Doc: "PCI vendor and device: `10de:2330`."},
		{Path: "accelerators[].memory_gib", Doc: "Its memory in GiB."},
		{Path: "accelerators[].numa", Doc: "The NUMA node that it hangs on."},
		{Path: "accelerators[].driver", Doc: "The driver that is bound; null if none is."},
		{Path: "accelerators[].address", Doc: "PCI address: `0000:1b:00.0`."},
		{Path: "accelerators[].sriov", Doc: "Its virtual functions."},
		{Path: "accelerators[].sriov.total_vfs", Doc: "How many it offers; null where it has none to offer."},
		{Path: "accelerators[].sriov.num_vfs", Doc: "How many are made."},
		{Path: "accelerators[].pcie", Doc: "Its link to the board."},
		{Path: "accelerators[].pcie.gts", Doc: "Gigatransfers a second of each lane now. An idle GPU lowers it: no label should rest on it."},
		{Path: "accelerators[].pcie.width", Doc: "Lanes that are in use. Fewer than `max_width`: the slot is narrower, or the contact is bad."},
		{Path: "accelerators[].pcie.max_gts", Doc: "What the device could do: 8 is PCIe 3, 16 is 4, 32 is 5."},
		{Path: "accelerators[].pcie.max_width", Doc: "How many lanes the device has."},
		{Path: "accelerators[].driver_version", Doc: "As the driver's module tells it: `550.54.15`. Drivers of the kernel's own tree have none."},
		{Path: "accelerators[].evidence", Doc: "Where name and kind were read."},
		{Path: "gpus", Doc: "The accelerators with `kind = \"gpu\"`. A machine without has an empty list: test `length(…gpus) > 0` before `gpus[0]`.", Like: "accelerators"},

		{Path: "nics", Doc: "Network cards on the PCI bus, also without a driver or a link."},
		{Path: "nics[].interface", Doc: "The interface's name; null without a driver."},
		{Path: "nics[].vendor", Doc: "Lower case: `nvidia`, `mellanox`, `intel`, `amd`."},
		{Path: "nics[].model", Doc: "The card's name without the vendor."},
		{Path: "nics[].device", Doc: "PCI vendor and device: `15b3:1015`."},
		{Path: "nics[].speed_gbps", Doc: "What the link runs at; null while it is down. `detect-hw` can `wait` for links."},
		{Path: "nics[].link", Doc: "`up` or `down`."},
		{Path: "nics[].driver", Doc: "The driver that is bound; null if none is."},
		{Path: "nics[].numa", Doc: "The NUMA node that it hangs on."},
		{Path: "nics[].address", Doc: "PCI address."},
		{Path: "nics[].sriov", Doc: "Its virtual functions."},
		{Path: "nics[].sriov.total_vfs", Doc: "How many it offers; null where it has none to offer."},
		{Path: "nics[].sriov.num_vfs", Doc: "How many are made."},
		{Path: "nics[].pcie", Doc: "Its link to the board, as `accelerators[].pcie`."},
		{Path: "nics[].pcie.gts", Doc: "Gigatransfers a second of each lane now."},
		{Path: "nics[].pcie.width", Doc: "Lanes that are in use."},
		{Path: "nics[].pcie.max_gts", Doc: "What the card could do."},
		{Path: "nics[].pcie.max_width", Doc: "How many lanes the card has."},
		{Path: "nics[].infiniband", Doc: "Its RDMA ports, by device and number: InfiniBand's, and those of RoCE and EFA."},
		{Path: "nics[].infiniband[].device", Doc: "`mlx5_0`."},
		{Path: "nics[].infiniband[].port", Doc: "The port's number, from 1."},
		{Path: "nics[].infiniband[].link_layer", Doc: "`infiniband`, `ethernet` (RoCE) or `unspecified` (EFA)."},
		{Path: "nics[].infiniband[].state", Doc: "`active`, `down`, `init`, `armed`."},
		{Path: "nics[].infiniband[].rate_gbps", Doc: "What the port runs at."},

		{Path: "guids", Doc: "GUIDs of RDMA devices, by their name, `mlx5_0`. Left out of recordings that are passed on."},

		{Path: "interfaces", Doc: "Every network interface that has an address, by name. Bonds and bridges too."},
		{Path: "interfaces{}.ipv4", Doc: "Addresses without prefix lengths, in the kernel's order."},
		{Path: "interfaces{}.ipv6", Doc: "The same of IPv6."},
		{Path: "interfaces{}.mac", Doc: "The hardware address."},
		{Path: "interfaces{}.mtu", Doc: "The largest packet."},

		{Path: "pci", Doc: "Every function on the PCI bus, for what no other fact tells: `length(where(….pci, {device = \"15b3:a2dc\"})) > 0`."},
		{Path: "pci[].address", Doc: "`0000:1b:00.0`."},
		{Path: "pci[].device", Doc: "Vendor and device: `10de:2330`."},
		{Path: "pci[].subsystem", Doc: "The same of the board that it sits on."},
		{Path: "pci[].class", Doc: "Hexadecimal digits as the kernel prints them: `030200`."},
		{Path: "pci[].driver", Doc: "The driver that is bound; null if none is."},
		{Path: "pci[].numa", Doc: "The NUMA node that it hangs on."},
		{Path: "pci[].physfn", Doc: "Of a virtual function: the address of the card that it belongs to. `nics` and `accelerators` list the card only; inside a virtual machine a virtual function is a card, and this is null."},

		{Path: "product", Doc: "The machine as its firmware names it."},
		{Path: "product.name", Doc: "`PowerEdge XE9680`."},
		{Path: "product.vendor", Doc: "`Dell Inc.`."},
		{Path: "product.serial", Doc: "The serial number. Left out of recordings that are passed on, as are `uuid` and `mac`."},
		{Path: "product.uuid", Doc: "The machine's UUID."},
		{Path: "product.sku", Doc: "The vendor's order number."},
		{Path: "bios", Doc: "The firmware. This, `chassis` and `baseboard` come from the tables of DMI, or from the device tree."},
		{Path: "bios.vendor", Doc: "`Dell Inc.`; `U-Boot` where that started the machine."},
		{Path: "bios.version", Doc: "`2.2.4`."},
		{Path: "bios.date", Doc: "Month, day and year: `04/12/2021`."},
		{Path: "chassis", Doc: "The case that the machine is in."},
		{Path: "chassis.type", Doc: "As the standard SMBIOS names it: `Rack mount chassis`."},
		{Path: "chassis.vendor", Doc: "`Dell Inc.`."},
		{Path: "chassis.version", Doc: "The vendor's version."},
		{Path: "chassis.serial", Doc: "The serial number. Left out of recordings that are passed on."},
		{Path: "chassis.asset_tag", Doc: "The owner's number. Left out of recordings that are passed on."},
		{Path: "baseboard", Doc: "The main board."},
		{Path: "baseboard.name", Doc: "`07PXPY`."},
		{Path: "baseboard.vendor", Doc: "`Dell Inc.`."},
		{Path: "baseboard.version", Doc: "`A01`."},
		{Path: "baseboard.serial", Doc: "The serial number. Left out of recordings that are passed on."},
		{Path: "baseboard.asset_tag", Doc: "The owner's number. Left out of recordings that are passed on."},
		{Path: "block_devices", Doc: "Disks and drives, by name. What the kernel makes of others is not among them: loop devices, LVM, RAID, the paths of NVMe multipath."},
		{Path: "block_devices[].name", Doc: "`sda`, `nvme0n1`. The kernel may give a disk another name at the next boot."},
		{Path: "block_devices[].type", Doc: "`hdd`, `ssd`, `odd` (optical) or `fdd` (floppy)."},
		{Path: "block_devices[].controller", Doc: "`scsi`, `nvme`, `virtio`, `mmc` or `ide`, by the device's name. SATA is `scsi`."},
		{Path: "block_devices[].size_bytes", Doc: "Its size."},
		{Path: "block_devices[].physical_block_bytes", Doc: "The smallest piece that it writes."},
		{Path: "block_devices[].rotational", Doc: "Whether it turns. Virtual disks mostly say that they do."},
		{Path: "block_devices[].removable", Doc: "Whether its medium can be taken out."},
		{Path: "block_devices[].vendor", Doc: "As the device reports it: `ATA`; of virtio the PCI id of the vendor."},
		{Path: "block_devices[].model", Doc: "As udev's database has it, with `_` for spaces; null before udev has seen the device."},
		{Path: "block_devices[].serial", Doc: "The serial number, from udev's database. Left out of recordings that are passed on, as is `wwn`."},
		{Path: "block_devices[].wwn", Doc: "The World Wide Name, from udev's database."},
		{Path: "virtualization", Doc: "As `systemd-detect-virt --vm` names it: `none`, `kvm`, `vmware`."},
		{Path: "machine_id", Doc: "/etc/machine-id."},

		{Path: "kernel", Doc: "The running kernel."},
		{Path: "kernel.release", Doc: "As `uname -r` prints it."},
		{Path: "os", Doc: "/etc/os-release."},
		{Path: "os.id", Doc: "`debian`, `ubuntu`, `rocky`."},
		{Path: "os.id_like", Doc: "What it descends from: `rhel`, `centos`, `fedora`."},
		{Path: "os.version_id", Doc: "`12`, `24.04`."},
		{Path: "os.name", Doc: "PRETTY_NAME."},
		{Path: "runtime", Doc: "The container runtime as its configuration tells: it may not run yet."},
		{Path: "runtime.endpoint", Doc: "`unix:///run/containerd/containerd.sock`."},
		{Path: "runtime.name", Doc: "`containerd` or `cri-o`."},
		{Path: "runtime.version", Doc: "Its version."},
		{Path: "runtime.cgroup_driver", Doc: "`systemd` or `cgroupfs`. The kubelet's must be the same."},

		{Path: "detectors", Doc: "What vendors' detectors added, by the names of the site's `detector` blocks."},
		{Path: "detectors.NAME", Doc: "One detector."},
		{Path: "detectors.NAME.state", Doc: "`ok`, `absent` (not installed), `failed` or `skipped` (not among `detectors` of the stage)."},
		{Path: "detectors.NAME.version", Doc: "The detector's own version."},
		{Path: "detectors.NAME.devices", Doc: "The devices that it found."},
		{Path: "detectors.NAME.devices[].address", Doc: "PCI address."},
		{Path: "detectors.NAME.devices[].name", Doc: "As the vendor prints it."},
		{Path: "detectors.NAME.devices[].attributes", Doc: "What else the vendor says of it."},
		{Path: "detectors.NAME.attributes", Doc: "What the vendor says of the whole machine."},
		{Path: "detectors.NAME.labels", Doc: "Labels that the vendor recommends. `from_detectors` of a `label` stage takes them."},
		{Path: "detectors.NAME.facts", Doc: "Facts with types of their own, as the detector describes them."},
		{Path: "detectors.NAME.warnings", Doc: "What the detector wants people to know."},

		{Path: "unknown", Doc: "Why facts are null."},
		{Path: "unknown[].fact", Doc: "Which one: `nics[0000:b1:00.1].speed_gbps`."},
		{Path: "unknown[].why", Doc: "The reason, in a sentence."},
		{Path: "unknown[].degraded", Doc: "Whether it should have been readable, so that the boot is degraded."},

		{Path: "evidence", Doc: "Where each fact was read, by its name: `cpu.model` in `/proc/cpuinfo`. A name that ends early (`os`) is for all below it; `nics[].link` is for every card, with `{address}` and `{interface}` for its own, unless a name with an address says otherwise. `explain` shows it."},
	}
}

// outputDocs says what the outputs of a stage type hold, in the order of the reference. Those of detect-hw are the
// tops of the tree of facts.
func outputDocs(stage string) []schema.Output {
	switch stage {
	case "fetch-ca":
		return []schema.Output{
			{Name: "pem", Doc: "The cluster's CAs, PEM."},
			{Name: "hash", Doc: "The pin of the first: `sha256:` and the hash of its public key."},
			{Name: "servers", Doc: "The apiservers of the `cluster` block, as URLs."},
			{Name: "verified_by", Doc: "Why they are believed: `ca_cert_hashes`, `ca_file`, `discovery_file`, `token`, or `last-good` on a node that has joined."},
		}
	case "fetch-config":
		return []schema.Output{
			{Name: "data", Doc: "The ConfigMap's keys and texts. Empty for a file."},
			{Name: "value", Doc: "The file, parsed as YAML. Null for a ConfigMap: `yamldecode(….data.KEY)` parses one of its keys."},
			{Name: "resource_version", Doc: "The ConfigMap's. Null for a file."},
		}
	case "detect-hw":
		var out []schema.Output
		for _, f := range facts() {
			if name, ok := top(f.Path); ok {
				out = append(out, schema.Output{Name: name, Doc: f.Doc + " See [facts](facts.md#" + name + ")."})
			}
		}
		return out
	case "label":
		return []schema.Output{{Name: "labels", Doc: "The labels that this stage adds, those of detectors among them."}}
	case "taint":
		return []schema.Output{{Name: "taints", Doc: "The taints that this stage adds, as `key=value:Effect`."}}
	case "reserve":
		return []schema.Output{
			{Name: "kube_reserved", Doc: "What is kept for the kubelet and the container runtime."},
			{Name: "system_reserved", Doc: "What is kept for the rest of the system."},
			{Name: "reserved_cpus", Doc: "Which CPUs are kept, as `0-1,64`; with `topology`."},
			{Name: "reserved_memory", Doc: "The kubelet's `reservedMemory`: `numaNode` and `limits` for each NUMA node. It is not written by itself: use it in `patch`."},
			{Name: "eviction_hard", Doc: "Below what the kubelet evicts pods."},
			{Name: "max_pods", Doc: "How many pods the formulas counted with."},
			{Name: "allocatable", Doc: "What is left for pods."},
		}
	case "write":
		return []schema.Output{{Name: "files", Doc: "The paths that the plan holds."}}
	}
	return nil
}
