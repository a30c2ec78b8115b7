# The machines are invented, with the facts that the site uses.
run "whole" {
  hardware = "testdata/whole.json"
  detectors = { nvidia = { facts = {
    gpus_complete     = true, gpus_to_recover = [], recovery_action = "none", mig_devices = { "1g.10gb" = 56 }
    row_remap_pending = 0, row_remap_failed = 0, mig_pending = 0
  } } }
  assert { condition = plan.degraded == [] && plan.warnings == [] }
  assert { condition = node.taints == ["nvsentinel.nvidia.com/validation-pending:NoSchedule", "readiness.k8s.io/gpu-fit:NoSchedule"] }
}

# One link is slow, one is down, one card has no virtual functions, mig-parted has not ended, and DCGM's diagnosis failed.
run "broken" {
  hardware = "testdata/broken.json"
  detectors = { nvidia = { facts = {
    gpus_complete     = true, gpus_to_recover = [], recovery_action = "none", mig_devices = {}
    row_remap_pending = 1, row_remap_failed = 0, mig_pending = 0
  } } }
  snapshot = "broken"
  assert { condition = plan.warnings == ["kubelet-held", "node-condition"] }
}

run "needs-a-reset" {
  hardware = "testdata/whole.json"
  detectors = { nvidia = { facts = {
    gpus_complete     = true, gpus_to_recover = ["0000:3b:00.0"], recovery_action = "gpu-reset", mig_devices = { "1g.10gb" = 56 }
    row_remap_pending = 0, row_remap_failed = 0, mig_pending = 0
  } } }
  assert { condition = plan.holds == ["gpu"] }
}

# Nothing is held by what is not known: the driver hangs, and its facts are null. The condition is not True.
run "unknown" {
  hardware  = "testdata/whole.json"
  detectors = { nvidia = { facts = {} } }
  assert { condition = plan.holds == [] }
  assert { condition = contains(plan.degraded, "node-condition") }
}

run "a-gpu-left-the-bus" {
  hardware  = "testdata/whole.json"
  without   = ["0000:1b:00.0"]
  detectors = { nvidia = { facts = { gpus_complete = false, gpus_to_recover = [] } } }
  assert { condition = plan.holds == ["missing"] }
}

# A machine that never had GPUs.
run "without-gpus" {
  hardware  = "../../testdata/hardware/facts/two-sockets.json"
  detectors = { nvidia = { state = "skipped" } }
  assert { condition = plan.holds == [] }
  assert { condition = contains(plan.degraded, "node-condition") }
}

# Four GPUs whose memory is the system's, on links that are slower than the GPUs can: nothing is held.
run "another-machine" {
  hardware = "../../testdata/hardware/facts/gb200-nvl72.json"
  detectors = { nvidia = { facts = {
    gpus_complete     = true, gpus_to_recover = [], recovery_action = "none", mig_devices = {}
    row_remap_pending = 0, row_remap_failed = 0, mig_pending = 0
  } } }
  assert { condition = plan.holds == [] }
  assert { condition = contains(plan.warnings, "kubelet-machine") }
  assert { condition = contains(plan.degraded, "node-condition") }
}
