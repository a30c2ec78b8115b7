# What a machine is for is in a file next to the site, by any of the machine's identities.
locals {
  hw       = stage.detect-hw.node
  macs     = [for i in values(local.hw.interfaces) : i.mac]
  ids      = [for id in compact(concat([local.hw.product.serial, local.hw.product.uuid], local.macs)) : lower(id)]
  machines = sitedata("machines.preletdata.yaml")
  machine  = one([for id, machine in local.machines : machine if contains(local.ids, id)]) # null: not listed
}

stage "label" "machine" {
  when   = local.machine != null
  labels = { "example.com/kind" = local.machine.kind, "example.com/rack" = local.machine.rack }
}
stage "taint" "gpu" {
  when   = try(local.machine.kind, "") == "gpu"
  taints = ["example.com/kind=gpu:NoSchedule"]
}
