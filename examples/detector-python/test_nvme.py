"""python3 -m unittest, in this folder."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvme"))
sys.dont_write_bytecode = True
import nvme  # noqa: E402


class Detect(unittest.TestCase):
    def machine(self, disks):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        for name, files in disks.items():
            folder = os.path.join(root.name, "sys/class/nvme", name)
            os.makedirs(folder)
            for file, content in files.items():
                with open(os.path.join(folder, file), "wb") as f:
                    f.write(content)
        return root.name

    def test_disks(self):
        root = self.machine({
            "nvme1": {"model": b"Example 4T   \n", "address": b"0000:02:00.0\n", "firmware_rev": b"1.0 \n", "numa_node": b"1\n"},
            "nvme0": {"model": b"Example 4T\n", "address": b"0000:01:00.0\n", "numa_node": b"-1\n"},
            "nvme2": {"model": b"\xff\x1b[2J\n", "address": b"traddr=192.0.2.1\n"},
        })
        answer = nvme.detect(root, {})
        self.assertEqual([d.attributes.get("pci_address") for d in answer.devices], ["0000:01:00.0", "0000:02:00.0", None])
        self.assertEqual([d.address for d in answer.devices], ["", "", ""])
        self.assertFalse(answer.devices[0].HasField("numa"))
        self.assertEqual(answer.devices[1].attributes["firmware"], "1.0")
        self.assertEqual(dict(answer.facts[0].value.struct_value)["Example 4T"], 2)
        self.assertTrue(answer.devices[2].name.isprintable())

    def test_nothing(self):
        answer = nvme.detect(self.machine({}), {})
        self.assertEqual((len(answer.devices), len(answer.labels)), (0, 0))

    def test_config(self):
        root = self.machine({"nvme0": {"model": b"Example 4T\n"}})
        self.assertEqual(len(nvme.detect(root, {"ignore_models": ["Example 4T"]}).devices), 0)
        self.assertEqual(nvme.detect(root, {"ignore_model": []}).problems[0].path, "ignore_model")
        self.assertEqual(nvme.detect(root, {"ignore_models": "x"}).problems[0].path, "ignore_models")


if __name__ == "__main__":
    unittest.main()
