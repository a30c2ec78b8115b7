# Puts prelet and a site into an image that has containerd, a kubelet and its unit. In the repository, after
# `make package`:
#
#   packer build -var deb=dist/prelet_0.2.0_amd64.deb -var site=my-site -var disk=base.qcow2 -var ssh_key=id \
#     packaging/image/recipes/packer
#
# This is for Packer 1.6, which has the source qemu built in. Later versions need its plugin: from 1.7 on a block
# `packer { required_plugins { … } }` with github.com/hashicorp/qemu, and `packer init`. That was not tried.
#
# No credential: the image is for all machines, and each gets its own at its first boot. `prelet seal` refuses secrets.
# For a cloud replace the source in qemu.pkr.hcl; the steps stay.

variable "deb" {
  description = "Package of prelet."
}

variable "site" {
  description = "Folder with the site's files, *.hcl."
}

build {
  sources = ["source.qemu.node"]

  provisioner "file" {
    source      = var.deb
    destination = "/tmp/prelet.deb"
  }

  provisioner "file" {
    source      = "${var.site}/"
    destination = "/tmp"
  }

  # Seal last: it removes the identity that this machine got, also the host keys of SSH, and ends the build with 3 if it
  # finds a secret that it may not remove, an invalid site or a kubelet that does not wait at the gate.
  provisioner "shell" {
    inline = [
      "set -eu",
      "dpkg --install /tmp/prelet.deb",
      "install -D --mode 644 --target-directory /usr/lib/prelet/site /tmp/*.hcl",
      "systemctl enable containerd.service kubelet.service",
      "systemctl stop kubelet.service", # it would write an identity; seal refuses while it runs, or is restarted
      "rm -f /tmp/*.hcl /tmp/prelet.deb /root/.ssh/authorized_keys",
      "prelet seal --yes",
    ]
  }
}
