#!/bin/sh
# Reloads systemd after installation and removal, because a drop-in was added or removed. While an image is built, systemd does not run.
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
