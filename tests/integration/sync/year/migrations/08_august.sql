-- 117 WordPress: dbDelta creates, zero dates and all
SET SESSION sql_mode = '';
UPDATE `customers` SET `vip` = 0;
CREATE TABLE wp_posts (
	ID bigint(20) unsigned NOT NULL auto_increment,
	post_author bigint(20) unsigned NOT NULL default '0',
	post_date datetime NOT NULL default '0000-00-00 00:00:00',
	post_content longtext NOT NULL,
	post_title text NOT NULL,
	post_status varchar(20) NOT NULL default 'publish',
	post_name varchar(200) NOT NULL default '',
	menu_order int(11) NOT NULL default '0',
	PRIMARY KEY  (ID),
	KEY post_name (post_name(191)),
	KEY type_status_date (post_status,post_date,ID),
	KEY post_author (post_author)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
CREATE TABLE wp_options (
	option_id bigint(20) unsigned NOT NULL auto_increment,
	option_name varchar(191) NOT NULL default '',
	option_value longtext NOT NULL,
	autoload varchar(20) NOT NULL default 'yes',
	PRIMARY KEY  (option_id),
	UNIQUE KEY option_name (option_name),
	KEY autoload (autoload)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
INSERT INTO wp_posts (post_content, post_title) VALUES ('<p>Hello</p>', 'Hello world!'), ('', 'Entwürfe 📝');
INSERT INTO wp_options (option_name, option_value) VALUES ('siteurl', 'https://x.org'), ('db_version', '57155');

-- 118 WordPress: dbDelta alters
SET SESSION sql_mode = '';
INSERT INTO wp_posts (post_date, post_content, post_title) VALUES ('2024-00-00 00:00:00', '', 'no month');
ALTER TABLE wp_posts ADD COLUMN `post_mime_type` varchar(100) NOT NULL default '';
ALTER TABLE wp_posts CHANGE COLUMN `post_title` post_title mediumtext NOT NULL;
ALTER TABLE wp_posts ADD KEY `post_mime` (`post_mime_type`);
UPDATE wp_posts SET post_mime_type = 'image/png' WHERE ID = 2;

-- 119 WordPress: an upgrade routine drops an index and adds another
UPDATE wp_options SET option_value = '57156' WHERE option_name = 'db_version';
ALTER TABLE wp_options DROP INDEX option_name;
ALTER TABLE wp_options ADD UNIQUE option_name (option_name);
INSERT INTO wp_options (option_name, option_value) VALUES ('cron', 'a:0:{}') ON DUPLICATE KEY UPDATE option_value = VALUES(option_value);

-- 120 WordPress: a plugin's table comes and goes
UPDATE wp_options SET autoload = 'no' WHERE option_name = 'cron';
CREATE TABLE IF NOT EXISTS wp_plugin_log (id mediumint(9) NOT NULL AUTO_INCREMENT, time datetime DEFAULT CURRENT_TIMESTAMP NOT NULL, text text NOT NULL, url varchar(55) DEFAULT '' NOT NULL, PRIMARY KEY  (id)) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
INSERT INTO wp_plugin_log (text) VALUES ('a'), ('b');
DROP TABLE IF EXISTS wp_plugin_log;
DELETE FROM wp_options WHERE option_name = 'cron';

-- 121 phpMyAdmin: a column by form
UPDATE `coupons` SET `code` = 'NOV' WHERE `code` = 'SEP';
ALTER TABLE `coupons` ADD `remark` VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL DEFAULT 'none' COMMENT 'seen in the list' AFTER `code`;
UPDATE `coupons` SET `remark` = 'Straße' WHERE `id` = 1;

-- 122 phpMyAdmin: an index without a name
INSERT INTO `coupons` (`code`, `remark`) VALUES ('DEC', 'strasse');
ALTER TABLE `coupons` ADD INDEX(`remark`);
ALTER TABLE `coupons` ADD INDEX(`remark`, `percent`);
ALTER TABLE `coupons` ADD UNIQUE(`percent`, `code`);
UPDATE `coupons` SET `remark` = 'STRASSE' WHERE `code` = 'DEC';

-- 123 phpMyAdmin: the order of columns
INSERT INTO `coupons` (`code`) VALUES ('JAN');
ALTER TABLE `coupons` CHANGE `valid_until` `valid_until` TIMESTAMP NULL DEFAULT NULL AFTER `id`, CHANGE `percent` `percent` TINYINT UNSIGNED NOT NULL DEFAULT '5' FIRST;
INSERT INTO `coupons` (`code`, `percent`, `valid_until`) VALUES ('FEB', 50, '2025-02-28 12:00:00');

-- 124 legacy: a latin1 table is found
UPDATE `coupons` SET `percent` = 60 WHERE `code` = 'FEB';
CREATE TABLE `legacy_clients` (`no` int(6) NOT NULL, `name` varchar(40) NOT NULL, `city` char(20) DEFAULT NULL, `memo` text, PRIMARY KEY (`no`), KEY `name` (`name`(10))) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_swedish_ci;
INSERT INTO `legacy_clients` VALUES (1, 'Müller', 'Köln', 'fünf'), (2, 'Lodz', NULL, NULL);
UPDATE `legacy_clients` SET `memo` = 'ÿ€' WHERE `no` = 1;

-- 125 legacy: one column of it is converted
UPDATE `legacy_clients` SET `city` = 'Nürnberg' WHERE `no` = 2;
ALTER TABLE `legacy_clients` MODIFY `name` varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL;
UPDATE `legacy_clients` SET `name` = '東京' WHERE `no` = 2;

-- 126 legacy: all of it is converted
INSERT INTO `legacy_clients` VALUES (3, 'Ñandú', 'Göteborg', REPEAT('ä', 400));
ALTER TABLE `legacy_clients` CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
INSERT INTO `legacy_clients` VALUES (4, 'Ωμέγα', 'Αθήνα', '🚀');

-- 127 legacy: the default only
UPDATE `legacy_clients` SET `memo` = NULL WHERE `no` = 3;
ALTER TABLE `legacy_clients` DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
ALTER TABLE `legacy_clients` ADD `code` varchar(10);
UPDATE `legacy_clients` SET `code` = IF(`no` = 1, 'A', 'a');

-- 128 legacy: utf8 as it was called, text that becomes a blob
CREATE TABLE `legacy_notes` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY, `t` text CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci, `b` varbinary(20)) ENGINE=InnoDB;
INSERT INTO `legacy_notes` (`t`, `b`) VALUES ('größe', 'abc'), (NULL, x'00');
ALTER TABLE `legacy_notes` MODIFY `t` blob;
INSERT INTO `legacy_notes` (`t`, `b`) VALUES (x'fffe', NULL);
UPDATE `legacy_notes` SET `b` = '' WHERE `b` IS NULL;
ALTER TABLE `legacy_notes` MODIFY `b` varbinary(200) NOT NULL DEFAULT 'none';
UPDATE `legacy_notes` SET `b` = REPEAT('z', 30) WHERE `id` = 2;
-- on tidb
ALTER TABLE `shop`.`legacy_notes` MODIFY `t` blob;
ALTER TABLE `legacy_notes` ADD COLUMN `anew` blob AFTER `t`; UPDATE `legacy_notes` SET `anew` = `t`; ALTER TABLE `legacy_notes` DROP COLUMN `t`; ALTER TABLE `legacy_notes` RENAME COLUMN `anew` TO `t`;

-- 129 legacy: only the collation changes, and with it who is equal to whom
CREATE TABLE `nicknames` (`nick` varchar(30) COLLATE utf8mb4_unicode_ci NOT NULL, `n` int DEFAULT NULL, PRIMARY KEY (`nick`)) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
INSERT INTO `nicknames` VALUES ('ada', 1), ('Bob', 2);
ALTER TABLE `nicknames` MODIFY `nick` varchar(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL;
INSERT INTO `nicknames` VALUES ('ADA', 3), ('bob', 4), ('äda', 5);
UPDATE `nicknames` SET `nick` = 'Ada' WHERE `nick` = 'ada';
-- on tidb
CREATE TABLE `anew` (`nick` varchar(30) COLLATE utf8mb4_bin NOT NULL, `n` int DEFAULT NULL, PRIMARY KEY (`nick`)) COLLATE=utf8mb4_unicode_ci; INSERT INTO `anew` SELECT * FROM `nicknames`; DROP TABLE `nicknames`; RENAME TABLE `anew` TO `nicknames`;

-- 130 Magento: declarative schema
UPDATE `nicknames` SET `n` = 6 WHERE `nick` = 'äda';
CREATE TABLE `sales_rule` (`rule_id` int UNSIGNED NOT NULL AUTO_INCREMENT COMMENT "Rule Id", `name` varchar(255) NULL COMMENT "Name", `from_date` date NULL COMMENT "From", `is_active` smallint NOT NULL DEFAULT 0 COMMENT "Is Active", `discount_amount` decimal(12,4) NOT NULL DEFAULT 0 COMMENT "Discount Amount", `website_ids` varbinary(100) NULL, CONSTRAINT PRIMARY KEY (`rule_id`), INDEX `SALES_RULE_IS_ACTIVE_FROM_DATE` (`is_active`,`from_date`)) ENGINE=innodb DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT="Sales Rule";
INSERT INTO `sales_rule` (`name`, `from_date`, `is_active`, `discount_amount`) VALUES ('Ten off', '2024-08-01', 1, 10), (NULL, NULL, 0, 0.0001);

-- 131 Magento: changes of the next module version, in one statement
UPDATE `sales_rule` SET `website_ids` = '1,2' WHERE `rule_id` = 1;
ALTER TABLE `sales_rule` MODIFY COLUMN `name` varchar(512) NULL COMMENT "Name", ADD COLUMN `priority` int UNSIGNED NOT NULL DEFAULT 0 COMMENT "Priority", DROP COLUMN `website_ids`, ADD INDEX `SALES_RULE_PRIORITY` (`priority`), COMMENT "Rules";
INSERT INTO `sales_rule` (`name`, `priority`) VALUES (REPEAT('n', 300), 4294967295);

-- 132 Joomla and Typo3: install scripts that quote strings by double quotes, and ENGINE without a change
DELETE FROM `sales_rule` WHERE `name` IS NULL;
CREATE TABLE IF NOT EXISTS `jos_content` (`id` int unsigned NOT NULL AUTO_INCREMENT, `title` varchar(255) NOT NULL DEFAULT "", `state` tinyint NOT NULL DEFAULT 0, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 DEFAULT COLLATE=utf8mb4_unicode_ci;
INSERT INTO `jos_content` (`title`, `state`) VALUES ("It""s", 1), ('"', -1);
ALTER TABLE `jos_content` ENGINE=InnoDB;
OPTIMIZE TABLE `jos_content`;
ALTER TABLE `jos_content` ADD COLUMN `alias` varchar(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT "" AFTER `title`, ADD KEY `idx_alias` (`alias`(191));
UPDATE `jos_content` SET `alias` = LOWER(`title`);
