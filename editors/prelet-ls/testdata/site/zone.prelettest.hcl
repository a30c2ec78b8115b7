variables {
  zone = "az1-r07"
}

run "rack" {
  hardware  = "machines/*"
  variables = { zone = "az2-r01" }
  assert {
    condition     = node.labels["example.com/rack"] == local.rack
    error_message = "${var.zone} has another rack"
  }
}
