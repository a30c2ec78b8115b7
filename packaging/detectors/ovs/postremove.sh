#!/bin/sh
# Reverts the access to the socket when the package is removed (deb: remove, purge; rpm: 0), but not in an upgrade. The group stays,
# as is usual for packages.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
socket=/run/openvswitch/db.sock
[ ! -S "$socket" ] || { chgrp root "$socket" && chmod 0750 "$socket"; }
