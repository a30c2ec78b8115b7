"""A detector in Python: the NVMe disks of a machine. One file that prelet runs: `make` packs this folder into it."""

import os
import signal
import sys

import nvme

COOKIE = ("PRELET_DETECTOR", "detector.v1")


def by_hand(arguments):
    """For people: describe and detect, as detectors in Go have them."""
    from google.protobuf import json_format

    if arguments == ["describe"]:
        print(json_format.MessageToJson(nvme.describe(), preserving_proto_field_name=True))
    elif arguments == ["detect"]:
        print(json_format.MessageToJson(nvme.detect("/", {}), preserving_proto_field_name=True))
    else:
        print("nvme tells prelet about NVMe disks. prelet starts it; by hand it has the commands describe and detect.")
        return 64
    return 0


def main():
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(by_hand(sys.argv[1:]))
    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR")
    if not folder:
        sys.exit("nvme: PLUGIN_UNIX_SOCKET_DIR is not set")
    import server  # gRPC takes 0.1 s to load: only where it is needed

    # A call that waits for a broken driver must not keep the process: no thread is joined.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    path = os.path.join(folder, "nvme.sock")
    running = server.start(path)
    print("1|1|unix|%s|grpc" % path, flush=True)
    running.wait_for_termination()
    os._exit(0)


main()
