variable "disk" {
  description = "Disk with Debian 12, containerd, a kubelet, and an SSH server that accepts the key for root."
}

variable "ssh_key" {
  description = "File with the private key. The build removes the public one from the image."
}

source "qemu" "node" {
  iso_url              = var.disk
  iso_checksum         = "none" # your own file
  disk_image           = true
  headless             = true
  ssh_username         = "root"
  ssh_private_key_file = var.ssh_key

  # Twice --force stops no service: systemd and DHCP clients would write their state again, after the seal.
  shutdown_command = "systemctl poweroff --force --force"
}
