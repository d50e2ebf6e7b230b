# Sourced by the entrypoint of the MySQL image at the first start: a small shard to migrate, and what DM's account on a
# source may do, and no more.
shard="app_$(printf '%02d' "$(docker_process_sql --skip-column-names <<<'SELECT @@server_id')")"
docker_process_sql <<SQL
CREATE DATABASE ${shard};
CREATE TABLE ${shard}.orders (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(100) NOT NULL);
INSERT INTO ${shard}.orders
SELECT @@server_id * 1000000 + n, CONCAT('order ', n)
FROM (WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1000) SELECT n FROM numbers) AS made;
GRANT SELECT, LOCK TABLES, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO '${MYSQL_USER}'@'%';
SQL
