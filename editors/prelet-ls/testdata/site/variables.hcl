variable "zone" {
  type        = string
  description = "Where the machine stands: region-rack"
}

override {
  stage "label" "place" {
    when = var.zone != ""
  }
}
