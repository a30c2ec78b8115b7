#!/bin/sh
# Disables the units when the package is removed, not when it is replaced by another version. A kubelet that runs
# continues, with the files that prelet wrote.
#
# $1 is the number of versions that stay.
set -e

[ "$1" != 0 ] || systemctl --no-reload disable prelet.service prelet-verify.service prelet-boot-check.service \
	prelet-check.timer prelet-site.service
