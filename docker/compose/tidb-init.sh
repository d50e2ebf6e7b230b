#!/bin/sh
# Waits for TiDB, which starts with a root without password, and makes the account of the target. Can be run again.
set -eu
until mysql --host=tidb --port=4000 --user=root --execute='SELECT 1' >/dev/null 2>&1; do
    sleep 1
done
mysql --host=tidb --port=4000 --user=root <<SQL
CREATE USER IF NOT EXISTS '${DM_USER}'@'%' IDENTIFIED BY '${DM_PASSWORD}';
GRANT ALL PRIVILEGES ON *.* TO '${DM_USER}'@'%';
SQL
