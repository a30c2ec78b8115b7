#!/bin/sh
# Makes the group. An ovsdb-server that runs is not restarted, because that would interrupt the node's network: its socket gets what the
# drop-in gives it at the next start.
set -e
systemd-sysusers prelet-ovs.conf
[ ! -d /run/systemd/system ] || systemctl daemon-reload
socket=/run/openvswitch/db.sock
[ ! -S "$socket" ] || { chgrp prelet-ovs "$socket" && chmod 0770 "$socket"; }
