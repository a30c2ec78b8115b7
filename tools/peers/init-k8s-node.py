#!/usr/bin/env python3
"""The script from which prelet grew, written again from its description (docs/image-builders/kubeadm.md and
internal/lab/sites/importer/script_test.go), for `make bench-peers`. The original was never published.

It does the work of the original with Python's standard library and PyYAML: CA and configuration from the cluster, the
GPU from nvidia-smi, network cards from lspci, then the four files. It keeps the original's order and its faults that
cost no time: TLS is not verified before the CA is known, and nothing is written atomically. It starts no kubelet.
Never use it on a node.
"""
import base64
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.request

import yaml

KUBERNETES = "/etc/kubernetes"


def output(*command):
    """Return what a command prints, and nothing where it is not installed."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def get(server, path, context, token=None):
    """Return an object of the API server."""
    request = urllib.request.Request(server + path)
    if token:
        request.add_header("Authorization", "Bearer " + token)
    with urllib.request.urlopen(request, context=context, timeout=30) as response:
        return json.load(response)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def address_of(interface):
    """Return the first IPv4 address of an interface."""
    match = re.search(r"inet ([0-9.]+)/", output("ip", "-4", "address", "show", "dev", interface))
    return match.group(1) if match else None


def gpu():
    """Return label and taint of the first GPU."""
    names = output("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    if not names:
        return {}, set()
    name = names[0].removeprefix("NVIDIA ").lower().replace(" ", "-")
    return {"accelerator": "nvidia-" + name}, {"nvidia.com/gpu=true:NoSchedule"}


def nic():
    """Return the type of the first known network card, if Open vSwitch uses DPDK."""
    cards = output("lspci")
    found = ""
    if "MT27710" in cards:
        found = "mlnx-25G"
    elif "XXV710" in cards:
        found = "intel-25G"
    elif " X710" in cards or "82599" in cards:
        found = "intel-10G"
    return found if "dpdk" in output("ovs-vsctl", "show") else ""


def reserve(config, resources):
    """Reserve CPUs and memory: half for the kubelet, half for the system."""
    cpus = os.cpu_count()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpus = sum(line.startswith("processor") for line in file) or cpus
    remained = resources.get("cpuRemained")
    percent = int(resources.get("memoryReserved", "0%").rstrip("%"))
    with open("/proc/meminfo", encoding="utf-8") as file:
        gib = int(re.search(r"MemTotal:\s+(\d+)", file.read()).group(1)) // (1 << 20)
    for key in "kubeReserved", "systemReserved":
        reserved = config.setdefault(key, {})
        if remained is not None and remained < cpus:
            reserved["cpu"] = f"{(cpus - remained) * 500}m"
        if percent:
            reserved["memory"] = f"{gib * percent // 100 // 2}Gi"


def merge(text, flag, values):
    """Add values to a flag of the text of /etc/default/kubelet."""
    match = re.search(flag + r"[= ](\S*?)(?=[\s\"])", text)
    if not match:
        return text.rstrip().removesuffix('"') + f' {flag}={",".join(sorted(values))}"\n'
    merged = sorted(values | {item for item in match.group(1).split(",") if item})
    return text[: match.start(1)] + ",".join(merged) + text[match.end(1):]


def main():
    token = sys.argv[1]
    with open(KUBERNETES + "/init-config", encoding="utf-8") as file:
        init = json.load(file)
    for name in "kubelet.conf", "bootstrap-kubelet.conf":
        if os.path.exists(f"{KUBERNETES}/{name}"):
            print(f"{name} exists", file=sys.stderr)

    address = address_of(init["listenInterface"]) if init.get("listenInterface") else None
    labels, taints = gpu()
    card = nic()

    server = init["apiserver"]
    server = server if "://" in server else "https://" + server
    unverified = ssl._create_unverified_context()
    info = get(server, "/api/v1/namespaces/kube-public/configmaps/cluster-info", unverified)
    cluster = yaml.safe_load(info["data"]["kubeconfig"])["clusters"][0]["cluster"]
    authority = cluster["certificate-authority-data"]
    write(KUBERNETES + "/bootstrap-kubelet.conf", yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "tls-bootstrap-token-user@kubernetes",
        "clusters": [{"name": "kubernetes", "cluster": {"server": server, "certificate-authority-data": authority}}],
        "contexts": [{"name": "tls-bootstrap-token-user@kubernetes",
                      "context": {"cluster": "kubernetes", "user": "tls-bootstrap-token-user"}}],
        "users": [{"name": "tls-bootstrap-token-user", "user": {"token": token}}],
    }))
    write(KUBERNETES + "/pki/ca.crt", base64.b64decode(authority).decode())

    name = "kubelet-config-" + init.get("k8s_version", "1.11")
    data = get(server, f"/api/v1/namespaces/kube-system/configmaps/{name}", unverified, token)["data"]
    if not data.get("vm-kubelet-config") or not data.get("default-kubelet"):
        sys.exit(f"ConfigMap {name} is empty")

    config = yaml.safe_load(data["vm-kubelet-config"])
    if address and config.get("address") == "0.0.0.0":
        config["address"] = address
    reserve(config, init.get("resources", {}))
    write("/var/lib/kubelet/config.yaml", yaml.safe_dump(config))

    labels["network.netease.com/kube-proxy"] = "lb-masquerade"
    wanted = {f"{key}={value}" for key, value in labels.items()}
    wanted |= {item for item in init.get("nodeLabels", "").split(",") if item}
    taints |= {item for item in init.get("nodeTaints", "").split(",") if item}
    if card:
        wanted.add("network.netease.com/sriov-type=" + card)
        taints.add(f"network.netease.com/sriov-type={card}:NoSchedule")
    flags = merge(data["default-kubelet"], "--node-labels", wanted)
    flags = merge(flags, "--register-with-taints", taints)
    if address:
        flags = re.sub(r"(--(?:node-ip|hostname-override)[= ])\S+", r"\g<1>" + address, flags)
    write("/etc/default/kubelet", flags)


if __name__ == "__main__":
    main()
