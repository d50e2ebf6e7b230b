-- 035 Flyway: the history table, then V1
UPDATE `customers` SET `vip` = 1 WHERE `id` = 2;
CREATE TABLE `shop`.`flyway_schema_history` (
    `installed_rank` INT NOT NULL,
    `version` VARCHAR(50),
    `description` VARCHAR(200) NOT NULL,
    `type` VARCHAR(20) NOT NULL,
    `script` VARCHAR(1000) NOT NULL,
    `checksum` INT,
    `installed_by` VARCHAR(100) NOT NULL,
    `installed_on` TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    `execution_time` INT NOT NULL,
    `success` BOOL NOT NULL,
    CONSTRAINT `PK_flyway_schema_history` PRIMARY KEY (`installed_rank`)
) ENGINE=InnoDB; CREATE INDEX `flyway_schema_history_s_idx` ON `shop`.`flyway_schema_history` (`success`);
CREATE TABLE warehouse (
    warehouse_id   INT UNSIGNED NOT NULL AUTO_INCREMENT,
    code           CHAR(4)      NOT NULL,
    opened_on      DATE         NULL,
    capacity       MEDIUMINT UNSIGNED DEFAULT 1000,
    CONSTRAINT pk_warehouse PRIMARY KEY (warehouse_id),
    CONSTRAINT uk_warehouse_code UNIQUE KEY (code)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
INSERT INTO `shop`.`flyway_schema_history` (`installed_rank`, `version`, `description`, `type`, `script`, `checksum`, `installed_by`, `execution_time`, `success`) VALUES (1, '1', 'warehouse', 'SQL', 'V1__warehouse.sql', -1847362, 'flyway', 12, 1);
INSERT INTO warehouse (code, opened_on) VALUES ('BER1', '2001-02-03'), ('ber1', NULL), ('MUC ', '2010-10-10');

-- 036 Flyway: V2, several statements in one packet
UPDATE warehouse SET capacity = 2000 WHERE code = 'BER1';
CREATE TABLE stock_movement (movement_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, warehouse_id INT UNSIGNED NOT NULL, sku VARCHAR(20) NOT NULL, delta INT NOT NULL, moved_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), PRIMARY KEY (movement_id), KEY ix_movement_sku (sku, moved_at)); ALTER TABLE stock_movement ADD CONSTRAINT fk_movement_warehouse FOREIGN KEY (warehouse_id) REFERENCES warehouse (warehouse_id) ON DELETE RESTRICT ON UPDATE RESTRICT; INSERT INTO stock_movement (warehouse_id, sku, delta) VALUES (1, 'LAMP-1', 10), (2, 'LAMP-2', -1);
INSERT INTO `shop`.`flyway_schema_history` (`installed_rank`, `version`, `description`, `type`, `script`, `checksum`, `installed_by`, `execution_time`, `success`) VALUES (2, '2', 'stock movement', 'SQL', 'V2__stock_movement.sql', 99, 'flyway', 31, 1);
INSERT INTO stock_movement (warehouse_id, sku, delta) SELECT 1, `sku`, `id` FROM `products`;

-- 037 Flyway: V3, ADD COLUMN … AFTER and FIRST
INSERT INTO stock_movement (warehouse_id, sku, delta) VALUES (3, 'DESK-1', 5);
ALTER TABLE stock_movement
    ADD COLUMN reason ENUM('sale', 'return', 'loss') NOT NULL DEFAULT 'sale' AFTER delta,
    ADD COLUMN batch CHAR(8) CHARACTER SET ascii COLLATE ascii_bin NULL FIRST /* V3__reasons.sql */;
UPDATE stock_movement SET reason = 'return', batch = 'B0000001' WHERE delta > 4;

-- 038 Flyway: V4, an enum gets members at its end
UPDATE stock_movement SET reason = 'loss' WHERE movement_id = 1;
ALTER TABLE stock_movement MODIFY COLUMN reason ENUM('sale', 'return', 'loss', 'inventory', 'Übertrag') NOT NULL DEFAULT 'sale';
INSERT INTO stock_movement (warehouse_id, sku, delta, reason) VALUES (1, 'LAMP-1', 4, 'Übertrag'), (1, 'LAMP-1', 4, 'inventory');

-- 039 Flyway: V5, an enum gets a member in its middle, so numbers move
UPDATE stock_movement SET reason = 'inventory' WHERE movement_id = 2;
ALTER TABLE stock_movement MODIFY COLUMN reason ENUM('sale', 'gift', 'return', 'loss', 'inventory', 'Übertrag') NOT NULL DEFAULT 'sale';
INSERT INTO stock_movement (warehouse_id, sku, delta, reason) VALUES (1, 'LAMP-1', -1, 'gift');

-- 040 Flyway: V6, an int that is too small
UPDATE stock_movement SET delta = delta * 2;
ALTER TABLE stock_movement MODIFY delta BIGINT NOT NULL;
INSERT INTO stock_movement (warehouse_id, sku, delta) VALUES (1, 'SAND', 99999999999);

-- 041 Flyway: V7, a signed column becomes unsigned
UPDATE stock_movement SET delta = ABS(delta);
ALTER TABLE stock_movement MODIFY delta BIGINT UNSIGNED NOT NULL DEFAULT 0;
INSERT INTO stock_movement (warehouse_id, sku, delta) VALUES (1, 'SAND', 18446744073709551615);

-- 042 Flyway: V8, a table split in two by hand
INSERT INTO warehouse (code, capacity) VALUES ('HAM1', 70);
CREATE TABLE warehouse_detail (warehouse_id INT UNSIGNED NOT NULL PRIMARY KEY, opened_on DATE NULL, manager VARCHAR(60) NOT NULL DEFAULT '') COMMENT='split off by V8';
INSERT INTO warehouse_detail (warehouse_id, opened_on) SELECT warehouse_id, opened_on FROM warehouse;
ALTER TABLE warehouse DROP COLUMN opened_on;
UPDATE warehouse_detail SET manager = 'Zoë' WHERE opened_on IS NOT NULL;
UPDATE warehouse SET capacity = NULL WHERE code = 'HAM1';

-- 043 Flyway: V9, a primary key changes
DELETE FROM warehouse_detail WHERE warehouse_id = 3;
ALTER TABLE warehouse_detail DROP PRIMARY KEY, ADD COLUMN kind TINYINT NOT NULL DEFAULT 1, ADD PRIMARY KEY (warehouse_id, kind);
INSERT INTO warehouse_detail (warehouse_id, kind) VALUES (1, 2), (2, 2);
UPDATE warehouse_detail SET kind = 3 WHERE kind = 2 AND warehouse_id = 1;
-- on tidb
CREATE TABLE anew (warehouse_id INT UNSIGNED NOT NULL, opened_on DATE NULL, manager VARCHAR(60) NOT NULL DEFAULT '', kind TINYINT NOT NULL DEFAULT 1, PRIMARY KEY (warehouse_id, kind)) COMMENT='split off by V8'; INSERT INTO anew (warehouse_id, opened_on, manager) SELECT * FROM warehouse_detail; DROP TABLE warehouse_detail; RENAME TABLE anew TO warehouse_detail;

-- 044 Flyway: R__views, a repeatable migration with views
UPDATE warehouse SET capacity = 71 WHERE code = 'HAM1';
CREATE OR REPLACE VIEW v_stock AS SELECT sku, SUM(delta) AS stock FROM stock_movement GROUP BY sku;
CREATE OR REPLACE ALGORITHM = MERGE SQL SECURITY INVOKER VIEW v_big AS SELECT * FROM warehouse WHERE capacity > 500;
UPDATE v_big SET capacity = capacity + 1;

-- 045 Flyway: V10, a trigger that writes a table of its own
DELETE FROM warehouse_detail WHERE kind = 3;
CREATE TABLE warehouse_log (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, code CHAR(4) NOT NULL, old_capacity INT NULL, new_capacity INT NULL, at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE TRIGGER trg_warehouse_capacity AFTER UPDATE ON warehouse FOR EACH ROW BEGIN IF NOT (OLD.capacity <=> NEW.capacity) THEN INSERT INTO warehouse_log (code, old_capacity, new_capacity) VALUES (NEW.code, OLD.capacity, NEW.capacity); END IF; END;
UPDATE warehouse SET capacity = capacity + 10;

-- 046 Flyway: V11, a procedure and a function
UPDATE warehouse SET capacity = capacity - 1 WHERE code = 'BER1';
CREATE PROCEDURE rebook(IN from_sku VARCHAR(20), IN to_sku VARCHAR(20)) BEGIN UPDATE stock_movement SET sku = to_sku WHERE sku = from_sku; DELETE FROM warehouse_log WHERE id % 2 = 0; END;
CREATE FUNCTION gross(net DECIMAL(10,2)) RETURNS DECIMAL(10,2) DETERMINISTIC RETURN net * 1.19;
ALTER TABLE `products` ADD COLUMN gross DECIMAL(10,2) NULL AFTER price;
UPDATE `products` SET gross = gross(price);
CALL rebook('SAND', 'SAND-2');

-- 047 Flyway: V12, accounts and grants
UPDATE stock_movement SET batch = 'B0000002' WHERE batch IS NULL;
DROP USER IF EXISTS 'shop_report'@'%'; CREATE USER 'shop_report'@'%' IDENTIFIED BY 'Se-cret!9'; GRANT SELECT ON `shop`.* TO 'shop_report'@'%';
ALTER TABLE stock_movement ALTER batch SET DEFAULT 'B0000000';
DROP USER 'shop_report'@'%';
INSERT INTO stock_movement (warehouse_id, sku, delta) VALUES (2, 'RUG-2', 3);

-- 048 Flyway: V13, a temporary table between
UPDATE stock_movement SET delta = 0 WHERE sku = 'SAND-2';
CREATE TEMPORARY TABLE tmp_totals (sku VARCHAR(20) PRIMARY KEY, total DECIMAL(30,0));
INSERT INTO tmp_totals SELECT sku, SUM(delta) FROM stock_movement GROUP BY sku;
ALTER TABLE warehouse ADD COLUMN total DECIMAL(30,0) NOT NULL DEFAULT 0;
UPDATE warehouse SET total = (SELECT SUM(total) FROM tmp_totals);
DROP TEMPORARY TABLE tmp_totals;
UPDATE warehouse SET total = total + warehouse_id;

-- 049 Flyway: V14, an event that never comes
DELETE FROM warehouse_log WHERE id = 1;
CREATE EVENT purge_log ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' DISABLE DO DELETE FROM warehouse_log;
ALTER TABLE warehouse_log ADD INDEX ix_at (at);
DROP EVENT purge_log;
INSERT INTO warehouse_log (code) VALUES ('NONE');

-- 050 Flyway: V15, triggers and views go
UPDATE warehouse SET capacity = 1;
DROP TRIGGER trg_warehouse_capacity;
DROP VIEW v_big;
DROP PROCEDURE rebook;
ALTER TABLE warehouse_log RENAME TO warehouse_history, ADD COLUMN by_whom VARCHAR(30) NULL;
UPDATE warehouse SET capacity = 2;
UPDATE warehouse_history SET by_whom = 'trigger' WHERE new_capacity IS NOT NULL;

-- 051 Flyway: undo U15, and flyway clean of one table
INSERT INTO warehouse_history (code, by_whom) VALUES ('X', 'undo');
ALTER TABLE warehouse_history DROP COLUMN by_whom;
DROP TABLE IF EXISTS warehouse_snapshot;
DROP FUNCTION IF EXISTS gross;
DELETE FROM `shop`.`flyway_schema_history` WHERE `installed_rank` = 2;
