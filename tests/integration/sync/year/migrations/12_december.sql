-- 185 by hand: a key over a prefix, and one that is longer
UPDATE `fk_child` SET `parent_id` = NULL WHERE `id` = 2;
ALTER TABLE `wishes` ADD `url` varchar(1000) CHARACTER SET ascii COLLATE ascii_bin NULL, ADD KEY `url` (`url`(50));
UPDATE `wishes` SET `url` = CONCAT('https://x.org/', `id`);
ALTER TABLE `wishes` DROP KEY `url`, ADD KEY `url` (`url`(120), `rank`);
INSERT INTO `wishes` (`label`, `inserted_at`, `updated_at`) VALUES ('c', NOW(), NOW());

-- 186 by hand: numbers of another kind
-- not into TiDB: it computes other values; tests/ddl_campaign has the remedy
DELETE FROM `wishes` WHERE `label` = 'b';
ALTER TABLE `wishes` ADD `f` float NULL, ADD `d` double NULL, ADD `b` bit(12) NULL, ADD `y` year NULL, ADD `t` time(6) NULL;
UPDATE `wishes` SET `f` = 0.1, `d` = 0.1, `b` = b'101010101010', `y` = 2024, `t` = '-838:59:58.999999';
ALTER TABLE `wishes` MODIFY `f` double NULL, MODIFY `b` bit(40) NULL, MODIFY `t` time(2) NULL;
UPDATE `wishes` SET `f` = 0.1, `b` = b'1' WHERE `id` = 1;

-- 187 by hand: moments of each kind, in a session of another time zone
SET SESSION time_zone = '+05:30';
UPDATE `wishes` SET `updated_at` = '2024-12-01 00:00:00';
CREATE TABLE `moments` (`id` int NOT NULL PRIMARY KEY, `dt` datetime NULL, `ts` timestamp NULL);
INSERT INTO `moments` VALUES (1, '2024-12-01 12:00:00', '2024-12-01 12:00:00');
ALTER TABLE `moments` ADD `made` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD `made_dt` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3);
INSERT INTO `moments` (`id`) VALUES (2);

-- 188 by hand: a datetime becomes a timestamp in that time zone, and the other way round
-- not into TiDB: it computes other values; tests/ddl_campaign has the remedy
SET SESSION time_zone = '+05:30';
INSERT INTO `moments` (`id`, `dt`, `ts`) VALUES (3, '2024-06-30 23:59:59', '2024-06-30 23:59:59');
ALTER TABLE `moments` MODIFY `dt` timestamp NULL, MODIFY `ts` datetime NULL;
INSERT INTO `moments` (`id`, `dt`, `ts`) VALUES (4, '2024-07-01 00:00:00', '2024-07-01 00:00:00');

-- 189 by hand: default changes by functions
UPDATE `moments` SET `ts` = NULL WHERE `id` = 1;
ALTER TABLE `moments` MODIFY `ts` datetime NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, ADD `changed` timestamp(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6);
UPDATE `moments` SET `dt` = NULL WHERE `id` = 2;
INSERT INTO `moments` (`id`) VALUES (5);

-- 190 by hand: an old style timestamp column
SET SESSION explicit_defaults_for_timestamp = 0;
UPDATE `moments` SET `ts` = '2024-12-12 12:12:12' WHERE `id` = 5;
CREATE TABLE `old_style` (`id` int NOT NULL PRIMARY KEY, `ts` timestamp, `ts2` timestamp NULL);
INSERT INTO `old_style` (`id`) VALUES (1), (2);
ALTER TABLE `old_style` MODIFY `ts2` timestamp NULL DEFAULT '2000-01-01 00:00:00';
INSERT INTO `old_style` (`id`) VALUES (3);

-- 191 by hand: many things in one statement
UPDATE `old_style` SET `ts2` = NULL WHERE `id` = 1;
ALTER TABLE `orders` ADD `a1` int, ADD `a2` int NOT NULL DEFAULT 7 FIRST, ADD `a3` varchar(3) AFTER `a2`, DROP `weight`, MODIFY `note` varchar(500), RENAME COLUMN `channel` TO `via`, ADD UNIQUE KEY `a3` (`a3`), DROP KEY `ix_channel`, ADD KEY `ix_via` (`via`, `a1` DESC), ALTER `currency` SET DEFAULT 'USD', COMMENT = 'grown';
UPDATE `orders` SET `a3` = CONCAT('x', `id`) WHERE `id` < 20;
INSERT INTO `orders` (`customer_id`, `placed_at`) VALUES (1, NOW());

-- 192 by hand: columns in parentheses
DELETE FROM `orders` WHERE `a3` IS NULL LIMIT 1;
ALTER TABLE `orders` ADD (`b1` tinyint DEFAULT 3, `b2` date DEFAULT '2024-12-24');
UPDATE `orders` SET `b1` = -3 WHERE `customer_id` = 1;

-- 193 by hand: a new primary key column for a table that had none
UPDATE `staging_prices` SET `price` = '18' WHERE `sku` = 'LAMP-1';
ALTER TABLE `staging_prices` ADD `batch` int NOT NULL DEFAULT 1, ADD PRIMARY KEY (`sku`, `batch`);
INSERT INTO `staging_prices` VALUES ('LAMP-1', '19', 2);
UPDATE `staging_prices` SET `batch` = 3 WHERE `batch` = 2;

-- 194 by hand: and away with the key again, rows that are equal
UPDATE `staging_prices` SET `price` = NULL;
ALTER TABLE `staging_prices` DROP PRIMARY KEY, DROP COLUMN `batch`;
INSERT INTO `staging_prices` VALUES ('LAMP-1', NULL), ('LAMP-1', NULL);
DELETE FROM `staging_prices` LIMIT 1;

-- 195 by hand: the unique key that told rows apart goes, another takes its place
CREATE TABLE `sessions` (`token` char(8) NOT NULL, `user` int NOT NULL, `seen` int NOT NULL DEFAULT 0, UNIQUE KEY `token` (`token`));
INSERT INTO `sessions` VALUES ('aaaaaaaa', 1, 0), ('bbbbbbbb', 2, 0);
ALTER TABLE `sessions` ADD UNIQUE KEY `user` (`user`), DROP KEY `token`;
INSERT INTO `sessions` VALUES ('aaaaaaaa', 3, 1);
UPDATE `sessions` SET `user` = `user` + 10 ORDER BY `user` DESC;

-- 196 gh-ost: with --attempt-instant-ddl, so there is no ghost at all
UPDATE `sessions` SET `seen` = 5;
ALTER /* gh-ost */ TABLE `shop`.`sessions` ADD COLUMN `agent` varchar(20) DEFAULT NULL, ALGORITHM=INSTANT;
UPDATE `sessions` SET `agent` = 'curl' WHERE `user` = 11;

-- 197 gh-ost: a changed column, on a table that LIKE copies with a full text index
INSERT INTO `posts` (`user_id`, `title`, `slug`, `body`) VALUES (3, 'last', 'last', 'of the year');
create /* gh-ost */ table `shop`.`_posts_gho` like `shop`.`posts`;
alter /* gh-ost */ table `shop`.`_posts_gho` CHANGE slug slug varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '', ADD KEY ix_slug (slug);
insert /* gh-ost `shop`.`posts` */ ignore into `shop`.`_posts_gho` (`id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`, `views`) (select `id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`, `views` from `shop`.`posts` lock in share mode);
rename /* gh-ost */ table `shop`.`posts` to `shop`.`_posts_del`, `shop`.`_posts_gho` to `shop`.`posts`;
drop /* gh-ost */ table if exists `shop`.`_posts_del`;
UPDATE `posts` SET `slug` = 'LAST' WHERE `title` = 'last';

-- 198 pt-archiver: rows move to a table like theirs
DELETE FROM `posts` WHERE `title` = 'pt';
CREATE TABLE `orders_2024` LIKE `orders`;
INSERT INTO `orders_2024` SELECT * FROM `orders` WHERE `id` < 9;
DELETE FROM `orders` WHERE `id` < 9;
UPDATE `orders_2024` SET `note` = 'pt-archiver';

-- 199 by hand: the whole schema gets another default, and a table is made under it
UPDATE `orders` SET `note` = NULL;
ALTER DATABASE `shop` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE `year_end` (`word` varchar(20) NOT NULL PRIMARY KEY, `n` int);
INSERT INTO `year_end` VALUES ('a', 1), ('A', 2), ('ä', 3);
UPDATE `year_end` SET `n` = 4 WHERE `word` = 'A';

-- 200 Rails: the year's old tables are removed
UPDATE `year_end` SET `n` = `n` + 1;
DROP TABLE `old_style`, `ansi quoted`;
DROP TABLE `orders_2023`;
DROP VIEW `v_stock`;
INSERT INTO `schema_migrations` (`version`) VALUES ('20241231235959');
DELETE FROM `year_end` WHERE `word` = 'ä';
