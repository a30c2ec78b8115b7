#!/bin/sh
# Takes back what the installation gave, when the package goes (deb: remove, purge; rpm: 0) and not when a newer one comes. The group
# stays, as groups do.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
socket=/run/openvswitch/db.sock
[ ! -S "$socket" ] || { chgrp root "$socket" && chmod 0750 "$socket"; }
