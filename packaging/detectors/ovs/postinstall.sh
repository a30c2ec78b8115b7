#!/bin/sh
# Creates the group. A running ovsdb-server is not restarted, because that would interrupt the node's network: the drop-in applies
# at its next start.
set -e
systemd-sysusers prelet-ovs.conf
[ ! -d /run/systemd/system ] || systemctl daemon-reload
socket=/run/openvswitch/db.sock
[ ! -S "$socket" ] || { chgrp prelet-ovs "$socket" && chmod 0770 "$socket"; }
