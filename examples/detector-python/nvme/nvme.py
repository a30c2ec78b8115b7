"""What the detector knows. It reads below the root that it is given, so that the same code looks at a node and at a test."""

import os

import detector_pb2 as pb

VERSION = "1.0.0"

# The schema of `config {}`, once: it is described, and it is what configurations are checked against.
CONFIG = [
    pb.Attribute(
        name="ignore_models",
        type=pb.Type(kind=pb.Type.KIND_LIST, element=pb.Type(kind=pb.Type.KIND_STRING)),
        doc="Models that are not told of.",
    ),
]


def describe():
    """What the detector is. It looks at nothing."""
    return pb.DescribeResponse(
        name="nvme",
        version=VERSION,
        vendor="Example",
        doc="NVMe disks: models, firmware, NUMA nodes.",
        config=CONFIG,
        facts=[
            pb.Attribute(
                name="models",
                type=pb.Type(kind=pb.Type.KIND_MAP, element=pb.Type(kind=pb.Type.KIND_NUMBER)),
                doc="How many disks there are of each model.",
            )
        ],
        label_domains=["nvme.example.com"],
        match=pb.Match(paths=["/sys/class/nvme/nvme*"]),
        needs=pb.Needs(execute=["/usr/bin/python3"]),  # the interpreter, which the site grants as any program
    )


def problems(config):
    """What is wrong with a configuration. prelet has checked it against the schema, but its lock may be of another version."""
    found = []
    known = [a.name for a in CONFIG]
    for name in sorted(config):
        if name not in known:
            found.append(pb.Problem(path=name, summary="no such attribute", detail="There is: %s." % ", ".join(known)))
    models = config.get("ignore_models")
    if models is not None and not (isinstance(models, list) and all(isinstance(m, str) for m in models)):
        found.append(pb.Problem(path="ignore_models", summary="not a list of strings"))
    return found


def text(path):
    """A file's text in one line that a terminal can show, or None: a file that cannot be read is no reason to fail."""
    try:
        with open(path, "rb") as f:
            raw = f.read(4096).decode("utf-8", "replace")
    except OSError:
        return None
    return " ".join("".join(c if c.isprintable() else " " for c in raw).split()) or None


def detect(root, config):
    """What there is, sorted: the same machine gives the same answer."""
    wrong = problems(config)
    if wrong:
        return pb.DetectResponse(problems=wrong)
    answer = pb.DetectResponse()
    ignored = config.get("ignore_models") or []
    folder = os.path.join(root, "sys/class/nvme")
    models = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    for name in names:
        at = os.path.join(folder, name)
        model = text(os.path.join(at, "model"))
        if model in ignored:
            continue
        device = answer.devices.add()
        if model:
            device.name = model[:4096]
            device.evidence["name"] = "/sys/class/nvme/%s/model" % name
            models[model] = models.get(model, 0) + 1
        address = text(os.path.join(at, "address")) or ""
        if is_pci(address):
            # Not device.address: the description matches by path, so these PCI devices are not its own to tell of.
            device.attributes["pci_address"] = address
        firmware = text(os.path.join(at, "firmware_rev"))
        if firmware:
            device.attributes["firmware"] = firmware
        numa = text(os.path.join(at, "numa_node")) or ""
        if numa.isdigit() and int(numa) < 65536:
            device.numa = int(numa)
    fact = answer.facts.add(name="models", evidence="/sys/class/nvme/*/model")
    fact.value.struct_value.SetInParent()
    for model in sorted(models):
        fact.value.struct_value[model] = models[model]
    if answer.devices:
        answer.labels.add(key="nvme.example.com/count", value=str(len(answer.devices)), evidence="/sys/class/nvme")
    return answer


def is_pci(s):
    """0000:17:00.0: a disk over a network has another kind of address."""
    parts = s.replace(".", ":").split(":")
    return [len(p) for p in parts] == [4, 2, 2, 1] and all(c in "0123456789abcdef" for c in "".join(parts))
