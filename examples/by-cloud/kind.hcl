# Zone and instance type are what cloud-init knows from the cloud.
stage "fetch-config" "cloud" {
  file = "/run/cloud-init/instance-data.json"
  wait = "1m" # cloud-init writes it while the node boots
}

locals {
  cloud = stage.fetch-config.cloud.value
  type  = try(local.cloud.ds.meta_data.instance-type, null) # of EC2; other clouds have another place
}

stage "label" "cloud" {
  labels = {
    "topology.kubernetes.io/zone"      = local.cloud.v1.availability_zone
    "node.kubernetes.io/instance-type" = local.type
  }
}
stage "taint" "gpu" {
  when   = startswith(coalesce(local.type, "none"), "p5")
  taints = ["nvidia.com/gpu=present:NoSchedule"]
}
