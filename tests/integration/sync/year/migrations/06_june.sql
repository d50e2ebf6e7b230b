-- 085 by hand: a table partitioned by month
-- only within a family: partitions are not carried over
UPDATE `settings` SET `value` = '"light"' WHERE `name` = 'theme';
CREATE TABLE `page_views` (
  `id` bigint NOT NULL AUTO_INCREMENT,
  `viewed_on` date NOT NULL,
  `path` varchar(200) NOT NULL,
  `hits` int NOT NULL DEFAULT 1,
  PRIMARY KEY (`id`, `viewed_on`)
) ENGINE=InnoDB
PARTITION BY RANGE (TO_DAYS(`viewed_on`)) (
  PARTITION p2024_04 VALUES LESS THAN (TO_DAYS('2024-05-01')),
  PARTITION p2024_05 VALUES LESS THAN (TO_DAYS('2024-06-01')),
  PARTITION p2024_06 VALUES LESS THAN (TO_DAYS('2024-07-01'))
);
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-04-03', '/'), ('2024-04-30', '/a'), ('2024-05-01', '/'), ('2024-06-15', '/b?ü');

-- 086 cron: the next month's partition
-- only within a family: partitions are not carried over
UPDATE `page_views` SET `hits` = `hits` + 1;
ALTER TABLE `page_views` ADD PARTITION (PARTITION p2024_07 VALUES LESS THAN (TO_DAYS('2024-08-01')));
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-07-31', '/july');

-- 087 cron: the oldest month goes
-- only within a family: partitions are not carried over
UPDATE `page_views` SET `path` = '/old' WHERE `viewed_on` < '2024-05-01';
ALTER TABLE `page_views` DROP PARTITION p2024_04;
UPDATE `page_views` SET `path` = '/may' WHERE `viewed_on` = '2024-05-01';

-- 088 cron: a month is emptied
-- only within a family: partitions are not carried over
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-05-02', '/x'), ('2024-06-02', '/y');
ALTER TABLE `page_views` TRUNCATE PARTITION p2024_05;
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-05-03', '/z');

-- 089 cron: both at once, by a stored procedure
-- only within a family: partitions are not carried over
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-05-04', '/gone');
CREATE PROCEDURE `rotate_page_views`(IN fresh varchar(20), IN bound varchar(20), IN old varchar(20)) BEGIN SET @ddl = CONCAT('ALTER TABLE `page_views` ADD PARTITION (PARTITION ', fresh, ' VALUES LESS THAN (TO_DAYS(''', bound, ''')))'); PREPARE stmt FROM @ddl; EXECUTE stmt; DEALLOCATE PREPARE stmt; SET @ddl = CONCAT('ALTER TABLE `page_views` DROP PARTITION ', old); PREPARE stmt FROM @ddl; EXECUTE stmt; DEALLOCATE PREPARE stmt; END;
CALL `rotate_page_views`('p2024_08', '2024-09-01', 'p2024_05');
DROP PROCEDURE `rotate_page_views`;
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-08-08', '/august');

-- 090 by hand: a catch-all, split at the end of the month
-- only within a family: partitions are not carried over
UPDATE `page_views` SET `viewed_on` = '2024-08-31' WHERE `path` = '/august';
ALTER TABLE `page_views` ADD PARTITION (PARTITION p_max VALUES LESS THAN MAXVALUE);
INSERT INTO `page_views` (`viewed_on`, `path`) VALUES ('2024-09-09', '/s'), ('2031-01-01', '/future');
ALTER TABLE `page_views` REORGANIZE PARTITION p_max INTO (PARTITION p2024_09 VALUES LESS THAN (TO_DAYS('2024-10-01')), PARTITION p_max VALUES LESS THAN MAXVALUE);
UPDATE `page_views` SET `viewed_on` = '2024-09-10' WHERE `path` = '/future';

-- 091 by hand: a partitioned table gets a column and an index
-- only within a family: partitions are not carried over
DELETE FROM `page_views` WHERE `path` = '/s';
ALTER TABLE `page_views` ADD COLUMN `agent` varchar(120) NULL, ADD KEY `path` (`path`, `viewed_on`);
INSERT INTO `page_views` (`viewed_on`, `path`, `agent`) VALUES ('2024-06-30', '/', 'curl/8'), ('2024-12-31', '/', '');

-- 092 by hand: care of partitions, which changes nothing
-- only within a family: partitions are not carried over
UPDATE `page_views` SET `agent` = 'bot' WHERE `agent` IS NULL;
ALTER TABLE `page_views` ANALYZE PARTITION p2024_06;
ALTER TABLE `page_views` REBUILD PARTITION p2024_06;
UPDATE `page_views` SET `agent` = 'bot 2' WHERE `hits` > 1;

-- 093 by hand: hash partitions over an existing table
-- only within a family: partitions are not carried over
CREATE TABLE `visits` (`id` int NOT NULL, `shop_no` int NOT NULL, `at` datetime NOT NULL, PRIMARY KEY (`id`, `shop_no`));
INSERT INTO `visits` VALUES (1, 1, NOW()), (2, 1, NOW()), (3, 7, NOW());
ALTER TABLE `visits` PARTITION BY HASH (`shop_no`) PARTITIONS 4;
UPDATE `visits` SET `shop_no` = 3 WHERE `id` = 1;

-- 094 by hand: fewer, more, and none again
-- only within a family: partitions are not carried over
INSERT INTO `visits` VALUES (4, 4, NOW());
ALTER TABLE `visits` COALESCE PARTITION 2;
ALTER TABLE `visits` ADD PARTITION PARTITIONS 3;
INSERT INTO `visits` VALUES (5, 5, NOW());
ALTER TABLE `visits` REMOVE PARTITIONING;
DELETE FROM `visits` WHERE `id` = 2;

-- 095 by hand: list partitions over a column
-- only within a family: partitions are not carried over
DELETE FROM `visits` WHERE `id` = 4;
CREATE TABLE `regional` (`id` int NOT NULL, `region` varchar(10) NOT NULL, `amount` decimal(9,2), PRIMARY KEY (`id`, `region`)) PARTITION BY LIST COLUMNS (`region`) (PARTITION p_north VALUES IN ('HH', 'SH'), PARTITION p_south VALUES IN ('BY', 'BW'));
INSERT INTO `regional` VALUES (1, 'HH', 1), (2, 'BY', 2);
ALTER TABLE `regional` ADD PARTITION (PARTITION p_east VALUES IN ('SN', 'BE'));
INSERT INTO `regional` VALUES (3, 'BE', NULL);
ALTER TABLE `regional` TRUNCATE PARTITION ALL;
INSERT INTO `regional` VALUES (4, 'BE', 4);

-- 096 mysqldump: a table as a dump makes it, in version comments
-- only within a family: partitions are not carried over
DELETE FROM `regional` WHERE `id` = 1;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `readings` (
  `sensor` int NOT NULL,
  `taken` int NOT NULL,
  `value` float DEFAULT NULL,
  PRIMARY KEY (`sensor`,`taken`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci
/*!50100 PARTITION BY RANGE (`taken`)
(PARTITION p0 VALUES LESS THAN (1000) ENGINE = InnoDB,
 PARTITION p1 VALUES LESS THAN MAXVALUE ENGINE = InnoDB) */;
/*!40101 SET character_set_client = @saved_cs_client */;
/*!40000 ALTER TABLE `readings` DISABLE KEYS */;
INSERT INTO `readings` VALUES (1,999,0.1),(1,1000,-3.5),(2,5,NULL);
/*!40000 ALTER TABLE `readings` ENABLE KEYS */;
UPDATE `readings` SET `value` = 2.25 WHERE `value` IS NULL;

-- 097 staging: loaded, moved on, emptied
UPDATE `products` SET `price` = `price` * 1.1;
CREATE TABLE `staging_prices` (`sku` varchar(20) NOT NULL, `price` varchar(40)) ENGINE=InnoDB;
INSERT INTO `staging_prices` VALUES ('LAMP-1', '18.00'), ('LAMP-2', 'n/a'), ('DESK-1', '199');
UPDATE `products` p JOIN `staging_prices` s USING (`sku`) SET p.`price` = s.`price` WHERE s.`price` REGEXP '^[0-9.]+$';
TRUNCATE TABLE `staging_prices`;
INSERT INTO `staging_prices` VALUES ('LAMP-1', '17'), ('LAMP-1', '17');

-- 098 staging: emptied twice with rows between, one of them like a row before
DELETE FROM `staging_prices` LIMIT 1;
TRUNCATE `staging_prices`;
INSERT INTO `staging_prices` VALUES ('LAMP-1', '17');
TRUNCATE `staging_prices`;
INSERT INTO `staging_prices` VALUES ('LAMP-1', '17'), ('DESK-1', NULL);

-- 099 staging: numbers start again behind a TRUNCATE
CREATE TABLE `staging_ids` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY, `v` varchar(10) COLLATE utf8mb4_bin, UNIQUE KEY `v` (`v`));
INSERT INTO `staging_ids` (`v`) VALUES ('a'), ('b'), ('c');
TRUNCATE TABLE `staging_ids`;
INSERT INTO `staging_ids` (`v`) VALUES ('c'), ('A');
UPDATE `staging_ids` SET `v` = 'a' WHERE `id` = 1;

-- 100 staging: dropped and made anew every night
UPDATE `staging_ids` SET `v` = NULL WHERE `id` = 2;
DROP TABLE IF EXISTS `staging_ids`;
CREATE TABLE `staging_ids` (`id` bigint NOT NULL PRIMARY KEY);
INSERT INTO `staging_ids` VALUES (1), (2);
DROP TABLE IF EXISTS `staging_ids`;
CREATE TABLE `staging_ids` (`id` varchar(10) NOT NULL PRIMARY KEY, `n` int);
INSERT INTO `staging_ids` VALUES ('1', 1), ('x', NULL);
