#!/bin/sh
# Disables the units when the package is removed, not when it is replaced by another version. A kubelet that runs
# continues, with the files that prelet wrote.
#
# $1 is "remove" (deb), or the number of versions that stay (rpm).
set -e

case $1 in
remove | 0) systemctl --no-reload disable prelet.service prelet-verify.service ;;
esac
