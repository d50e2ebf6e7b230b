# Sourced by the entrypoint of the MySQL image at the first start: what DM's account on a source may do, and no more.
docker_process_sql <<SQL
GRANT SELECT, RELOAD, PROCESS, LOCK TABLES, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO '${MYSQL_USER}'@'%';
SQL
