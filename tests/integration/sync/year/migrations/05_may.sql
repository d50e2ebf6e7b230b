-- 069 gh-ost: ADD COLUMN to orders, its table created by LIKE, rows changed meanwhile
INSERT INTO `orders` (`customer_id`, `total`, `placed_at`) VALUES (3, 33, NOW(6)), (4, 44, NOW(6));
drop /* gh-ost */ table if exists `shop`.`_orders_gho`;
drop /* gh-ost */ table if exists `shop`.`_orders_ghc`;
create /* gh-ost */ table `shop`.`_orders_ghc` (
			id bigint unsigned auto_increment,
			last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
			hint varchar(64) charset ascii not null,
			value varchar(4096) charset ascii not null,
			primary key(id),
			unique key hint_uidx(hint)
		) auto_increment=256 comment='gh-ost-changelog';
create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`;
alter /* gh-ost */ table `shop`.`_orders_gho` ADD COLUMN `channel` varchar(20) NOT NULL DEFAULT 'web';
insert /* gh-ost */ into `shop`.`_orders_ghc` (id, hint, value) values (NULLIF(2, 0), 'state', 'GhostTableMigrated') on duplicate key update last_update=NOW(), value=VALUES(value);
insert /* gh-ost `shop`.`orders` */ ignore into `shop`.`_orders_gho` (`id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at`) (select `id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at` from `shop`.`orders` force index (`PRIMARY`) where (((`id` > _binary'1') or ((`id` = _binary'1'))) and ((`id` < _binary'4') or ((`id` = _binary'4')))) lock in share mode);
UPDATE `orders` SET `note` = 'while copied' WHERE `id` IN (2, 6);
replace /* gh-ost `shop`.`_orders_gho` */ into `shop`.`_orders_gho` (`id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at`) select `id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at` from `shop`.`orders` where `id` in (2, 6);
insert /* gh-ost `shop`.`orders` */ ignore into `shop`.`_orders_gho` (`id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at`) (select `id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at` from `shop`.`orders` force index (`PRIMARY`) where ((`id` > _binary'4')) lock in share mode);
create /* gh-ost */ table `shop`.`_orders_del` (
			id int auto_increment primary key
		) engine=InnoDB comment='ghost-cut-over-sentry';
lock /* gh-ost */ tables `shop`.`orders` write, `shop`.`_orders_del` write;
drop /* gh-ost */ table if exists `shop`.`_orders_del`;
unlock tables;
rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, `shop`.`_orders_gho` to `shop`.`orders`;
drop /* gh-ost */ table if exists `shop`.`_orders_ghc`;
drop /* gh-ost */ table if exists `shop`.`_orders_del`;
UPDATE `orders` SET `channel` = 'phone' WHERE `id` = 3;
INSERT INTO `orders` (`customer_id`, `total`, `placed_at`) VALUES (5, 55, NOW(6));

-- 070 gh-ost: a run that is given up, its tables left and dropped a little later
UPDATE `orders` SET `channel` = 'shop' WHERE `id` = 4;
create /* gh-ost */ table `shop`.`_orders_ghc` (id bigint unsigned auto_increment, last_update timestamp not null DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null, value varchar(4096) charset ascii not null, primary key(id), unique key hint_uidx(hint)) auto_increment=256;
create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`;
alter /* gh-ost */ table `shop`.`_orders_gho` DROP COLUMN note;
insert /* gh-ost `shop`.`orders` */ ignore into `shop`.`_orders_gho` (`id`, `customer_id`, `status`, `total`, `placed_at`) (select `id`, `customer_id`, `status`, `total`, `placed_at` from `shop`.`orders` where `id` < 3 lock in share mode);
drop /* gh-ost */ table if exists `shop`.`_orders_gho`;
drop /* gh-ost */ table if exists `shop`.`_orders_ghc`;
UPDATE `orders` SET `note` = 'still there' WHERE `id` = 4;

-- 071 gh-ost: begun anew, several changes at once
DELETE FROM `orders` WHERE `id` = 1;
drop /* gh-ost */ table if exists `shop`.`_orders_gho`;
create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`;
alter /* gh-ost */ table `shop`.`_orders_gho` MODIFY status varchar(30) NOT NULL DEFAULT 'draft', ADD INDEX ix_channel (channel), DROP INDEX index_orders_on_status_and_placed_at, ADD COLUMN `weight` float NULL AFTER `total`;
insert /* gh-ost `shop`.`orders` */ ignore into `shop`.`_orders_gho` (`id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at`, `channel`) (select `id`, `customer_id`, `status`, `total`, `placed_at`, `note`, `currency`, `shipped_at`, `channel` from `shop`.`orders` lock in share mode);
DELETE FROM `orders` WHERE `id` = 7;
delete /* gh-ost `shop`.`_orders_gho` */ from `shop`.`_orders_gho` where ((`id` = 7));
UPDATE `orders` SET `total` = 77.77 WHERE `id` = 8;
update /* gh-ost `shop`.`_orders_gho` */ `shop`.`_orders_gho` set `total` = 77.77 where ((`id` = 8));
create /* gh-ost */ table `shop`.`_orders_del` (id int auto_increment primary key) engine=InnoDB comment='ghost-cut-over-sentry';
drop /* gh-ost */ table if exists `shop`.`_orders_del`;
rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, `shop`.`_orders_gho` to `shop`.`orders`;
drop /* gh-ost */ table if exists `shop`.`_orders_del`;
UPDATE `orders` SET `status` = 'waiting for the customer', `weight` = 1.5 WHERE `id` = 8;

-- 072 pt-online-schema-change: ADD COLUMN, with its triggers
INSERT INTO `posts` (`user_id`, `title`, `slug`, `body`) VALUES (1, 'pt', 'pt', 'osc');
SHOWN `posts` AS `shop`.`_posts_new`;
ALTER TABLE `shop`.`_posts_new` ADD COLUMN views int unsigned NOT NULL DEFAULT 0;
CREATE TRIGGER `pt_osc_shop_posts_del` AFTER DELETE ON `shop`.`posts` FOR EACH ROW DELETE IGNORE FROM `shop`.`_posts_new` WHERE `shop`.`_posts_new`.`id` <=> OLD.`id`;
CREATE TRIGGER `pt_osc_shop_posts_upd` AFTER UPDATE ON `shop`.`posts` FOR EACH ROW BEGIN DELETE IGNORE FROM `shop`.`_posts_new` WHERE !(OLD.`id` <=> NEW.`id`) AND `shop`.`_posts_new`.`id` <=> OLD.`id`;REPLACE INTO `shop`.`_posts_new` (`id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`) VALUES (NEW.`id`, NEW.`user_id`, NEW.`title`, NEW.`slug`, NEW.`body`, NEW.`state`, NEW.`created_at`, NEW.`updated_at`, NEW.`deleted_at`);END;
CREATE TRIGGER `pt_osc_shop_posts_ins` AFTER INSERT ON `shop`.`posts` FOR EACH ROW REPLACE INTO `shop`.`_posts_new` (`id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`) VALUES (NEW.`id`, NEW.`user_id`, NEW.`title`, NEW.`slug`, NEW.`body`, NEW.`state`, NEW.`created_at`, NEW.`updated_at`, NEW.`deleted_at`);
UPDATE `posts` SET `title` = 'while copied' WHERE `id` = 3;
INSERT LOW_PRIORITY IGNORE INTO `shop`.`_posts_new` (`id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`) SELECT `id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at` FROM `shop`.`posts` LOCK IN SHARE MODE /*pt-online-schema-change 12043 copy table*/;
INSERT INTO `posts` (`user_id`, `title`, `slug`, `body`) VALUES (2, 'in between', 'b', '');
ANALYZE TABLE `shop`.`_posts_new` /* pt-online-schema-change */;
RENAME TABLE `shop`.`posts` TO `shop`.`_posts_old`, `shop`.`_posts_new` TO `shop`.`posts`;
DROP TABLE IF EXISTS `shop`.`_posts_old`;
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_posts_del`;
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_posts_upd`;
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_posts_ins`;
UPDATE `posts` SET `views` = `id` * 3;

-- 073 pt-online-schema-change: a changed type and a dropped index
UPDATE `posts` SET `views` = 0 WHERE `id` = 1;
SHOWN `posts` AS `shop`.`_posts_new`;
ALTER TABLE `shop`.`_posts_new` MODIFY COLUMN views bigint unsigned NOT NULL DEFAULT 0, DROP INDEX posts_title_index;
CREATE TRIGGER `pt_osc_shop_posts_del` AFTER DELETE ON `shop`.`posts` FOR EACH ROW DELETE IGNORE FROM `shop`.`_posts_new` WHERE `shop`.`_posts_new`.`id` <=> OLD.`id`;
INSERT LOW_PRIORITY IGNORE INTO `shop`.`_posts_new` (`id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`, `views`) SELECT `id`, `user_id`, `title`, `slug`, `body`, `state`, `created_at`, `updated_at`, `deleted_at`, `views` FROM `shop`.`posts` FORCE INDEX(`PRIMARY`) WHERE ((`id` >= '1')) AND ((`id` <= '900')) LOCK IN SHARE MODE /*pt-online-schema-change 12044 copy nibble*/;
DELETE FROM `posts` WHERE `id` = 2;
RENAME TABLE `shop`.`posts` TO `shop`.`_posts_old`, `shop`.`_posts_new` TO `shop`.`posts`;
DROP TRIGGER IF EXISTS `shop`.`pt_osc_shop_posts_del`;
DROP TABLE IF EXISTS `shop`.`_posts_old`;
UPDATE `posts` SET `views` = 10000000000 WHERE `id` = 3;

-- 074 by hand: a new table built beside and swapped in by RENAME
INSERT INTO `categories` (`name`, `position`) VALUES ('Sale', 9), ('Sale', 10);
CREATE TABLE `categories_v2` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `name` varchar(80) NOT NULL, `position` smallint NOT NULL DEFAULT 0, `parent_id` bigint NULL, KEY `parent` (`parent_id`));
INSERT INTO `categories_v2` (`id`, `name`, `position`) SELECT `id`, COALESCE(`name`, ''), COALESCE(`position`, 0) FROM `categories`;
RENAME TABLE `categories` TO `categories_v1`, `categories_v2` TO `categories`;
UPDATE `categories` SET `parent_id` = 1 WHERE `id` = 2;
UPDATE `categories_v1` SET `name` = 'old' WHERE `id` = 1;

-- 075 by hand: two tables exchange their names
UPDATE `categories` SET `position` = 77 WHERE `id` = 1;
RENAME TABLE `categories` TO `categories_tmp`, `categories_v1` TO `categories`, `categories_tmp` TO `categories_v1`;
INSERT INTO `categories` (`name`) VALUES (NULL);
INSERT INTO `categories_v1` (`name`, `parent_id`) VALUES ('child', 2);

-- 076 by hand: and back, in a circle of three
DELETE FROM `categories` WHERE `name` IS NULL;
RENAME TABLE `categories_v1` TO `categories_tmp`, `categories` TO `categories_v1`, `categories_tmp` TO `categories`;
DROP TABLE `categories_v1`;
UPDATE `categories` SET `parent_id` = 3 WHERE `name` = 'Sale';

-- 077 by hand: an archive by CREATE TABLE LIKE, the live table empty again
UPDATE `orders` SET `shipped_at` = NOW(6) WHERE `id` < 5;
CREATE TABLE `orders_2023` LIKE `orders`;
INSERT INTO `orders_2023` SELECT * FROM `orders` WHERE `shipped_at` IS NOT NULL;
DELETE FROM `orders` WHERE `shipped_at` IS NOT NULL AND `id` < 4;
UPDATE `orders_2023` SET `note` = 'archived';

-- 078 by hand: log rotation by LIKE and RENAME
INSERT INTO `warehouse_history` (`code`) VALUES ('ROT1');
CREATE TABLE `warehouse_history_new` LIKE `warehouse_history`;
RENAME TABLE `warehouse_history` TO `warehouse_history_2024_04`, `warehouse_history_new` TO `warehouse_history`;
INSERT INTO `warehouse_history` (`code`) VALUES ('NEW1'), ('NEW2');
DELETE FROM `warehouse_history_2024_04` WHERE `code` = 'ROT1';

-- 079 by hand: the oldest rotation goes
UPDATE `warehouse_history` SET `new_capacity` = 3;
DROP TABLE `warehouse_history_2024_04`;
INSERT INTO `warehouse_history` (`code`) VALUES ('NEW3');

-- 080 by hand: a backup by CREATE TABLE … SELECT
UPDATE `customers` SET `updated_at` = NOW(6);
CREATE TABLE `customers_backup` AS SELECT * FROM `customers`;
UPDATE `customers_backup` SET `name` = 'kept';
DELETE FROM `customers_backup` WHERE `id` = 1;

-- 081 by hand: the backup gets a key, then goes
UPDATE `customers_backup` SET `phone` = NULL WHERE `id` = 2;
ALTER TABLE `customers_backup` ADD PRIMARY KEY (`id`);
UPDATE `customers_backup` SET `id` = 900 WHERE `id` = 2;
DROP TABLE `customers_backup`;
INSERT INTO `customers` (`email`, `name`, `created_at`, `updated_at`) VALUES ('ivy@example.com', 'Ivy', NOW(6), NOW(6));

-- 082 by hand: CREATE TABLE IF NOT EXISTS of what is there
INSERT INTO `categories` (`name`) VALUES ('again');
CREATE TABLE IF NOT EXISTS `categories` (`id` int PRIMARY KEY);
CREATE TABLE IF NOT EXISTS `settings` (`name` varchar(64) NOT NULL PRIMARY KEY, `value` varchar(1000) NOT NULL DEFAULT '');
INSERT INTO `settings` VALUES ('theme', 'dark'), ('motto', '');

-- 083 by hand: DROP TABLE of two at once
INSERT INTO `settings` VALUES ('tz', 'UTC');
CREATE TABLE `scratch_a` (`a` int); CREATE TABLE `scratch_b` (`b` int, KEY (`b`));
INSERT INTO `scratch_a` VALUES (1), (1), (NULL); INSERT INTO `scratch_b` SELECT * FROM `scratch_a`;
DROP TABLE `scratch_a`, `scratch_b`;
UPDATE `settings` SET `value` = 'light' WHERE `name` = 'theme';

-- 084 by hand: a table dropped and made anew under its name, with other columns
DELETE FROM `settings` WHERE `name` = 'tz';
DROP TABLE `settings`;
CREATE TABLE `settings` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY, `name` varchar(64) NOT NULL, `value` json NULL, UNIQUE KEY `name` (`name`));
INSERT INTO `settings` (`name`, `value`) VALUES ('theme', '"dark"'), ('limits', '{"a":1.5,"b":[ ]}');
