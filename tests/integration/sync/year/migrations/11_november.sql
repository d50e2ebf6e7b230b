-- 168 by hand: ANSI quotes
SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES';
UPDATE "customers" SET "phone" = 'ansi' WHERE "id" = 2;
CREATE TABLE "ansi quoted" ("a ""b""" int NOT NULL PRIMARY KEY, "c" varchar(10) DEFAULT 'd"e');
ALTER TABLE "ansi quoted" ADD "select" int DEFAULT 1 COMMENT 'it''s a word';
INSERT INTO "ansi quoted" ("a ""b""") VALUES (1), (2);

-- 169 by hand: a name with a backtick, no backslash escapes
SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES';
UPDATE `ansi quoted` SET `c` = 'a\b';
ALTER TABLE `ansi quoted` CHANGE `select` `sel``ect` int DEFAULT 1, ADD `path` varchar(30) NOT NULL DEFAULT 'C:\' COMMENT '\';
INSERT INTO `ansi quoted` (`a "b"`, `path`) VALUES (3, '\\');

-- 170 by hand: names beyond ASCII
UPDATE `ansi quoted` SET `sel``ect` = 2;
CREATE TABLE `größen` (`straße` varchar(20) NOT NULL PRIMARY KEY, `列` int NULL);
ALTER TABLE `größen` ADD `größe` enum('groß', 'klein', '大') NOT NULL DEFAULT 'groß';
INSERT INTO `größen` VALUES ('Hauptstraße', 1, 'klein'), ('Weg', NULL, '大');

-- 171 by hand: generated columns
-- only within a family: the other one may compute in another way
UPDATE `größen` SET `列` = 7;
CREATE TABLE `boxes` (`id` int NOT NULL AUTO_INCREMENT PRIMARY KEY, `w` int NOT NULL, `h` int NOT NULL, `area` int GENERATED ALWAYS AS (`w` * `h`) STORED, `label` varchar(30));
INSERT INTO `boxes` (`w`, `h`, `label`) VALUES (2, 3, 'Small'), (10, 20, 'BIG');
ALTER TABLE `boxes` ADD `upper_label` varchar(30) AS (UPPER(`label`)) VIRTUAL, ADD KEY `area` (`area`);
UPDATE `boxes` SET `w` = 4, `label` = 'mid' WHERE `id` = 1;

-- 172 by hand: the expression of a generated column changes
-- only within a family: the other one may compute in another way
INSERT INTO `boxes` (`w`, `h`) VALUES (1, 1);
ALTER TABLE `boxes` MODIFY `area` bigint GENERATED ALWAYS AS (`w` * `h` + 1) STORED;
UPDATE `boxes` SET `h` = `h` + 1;

-- 173 by hand: a functional index, or what stands for it
-- only within a family: the other one may compute in another way
UPDATE `boxes` SET `label` = 'Third' WHERE `label` IS NULL;
-- on mysql
ALTER TABLE `boxes` ADD INDEX `by_lower_label` ((LOWER(`label`)));
-- on mariadb
ALTER TABLE `boxes` ADD `lower_label` varchar(30) AS (LOWER(`label`)) VIRTUAL, ADD INDEX `by_lower_label` (`lower_label`);
-- on both
INSERT INTO `boxes` (`w`, `h`, `label`) VALUES (7, 7, 'Seven');

-- 174 by hand: the generated column goes
-- only within a family: the other one may compute in another way
UPDATE `boxes` SET `label` = 'eight' WHERE `w` = 7;
ALTER TABLE `boxes` DROP KEY `area`, DROP COLUMN `area`;
INSERT INTO `boxes` (`w`, `h`) VALUES (8, 8);

-- 175 by hand: defaults that are computed
-- only within a family: the other one may compute in another way
DELETE FROM `boxes` WHERE `id` = 1;
CREATE TABLE `computed_defaults` (`id` int NOT NULL PRIMARY KEY, `a` int DEFAULT (1 + 2), `t` varchar(20) DEFAULT (CONCAT('a', 'b')));
INSERT INTO `computed_defaults` (`id`) VALUES (1);
ALTER TABLE `computed_defaults` ADD `b` varchar(40) NOT NULL DEFAULT (LOWER('ABC'));
INSERT INTO `computed_defaults` (`id`) VALUES (2);

-- 176 by hand: an invisible column
UPDATE `größen` SET `größe` = 'groß';
CREATE TABLE `hidden` (`id` int NOT NULL PRIMARY KEY, `secret` varchar(10) NOT NULL DEFAULT 's' INVISIBLE, `n` int);
INSERT INTO `hidden` VALUES (1, 10), (2, 20);
INSERT INTO `hidden` (`id`, `secret`) VALUES (3, 'x');
ALTER TABLE `hidden` ADD `more` int NOT NULL DEFAULT 0 INVISIBLE AFTER `id`;
UPDATE `hidden` SET `more` = 5 WHERE `id` = 2;

-- 177 by hand: it becomes visible, another is hidden
-- only within a family: MariaDB has no statement for that alone
INSERT INTO `hidden` (`id`, `more`) VALUES (4, 4);
-- on mysql
ALTER TABLE `hidden` ALTER COLUMN `secret` SET VISIBLE, ALTER COLUMN `n` SET INVISIBLE;
-- on mariadb
ALTER TABLE `hidden` MODIFY `secret` varchar(10) NOT NULL DEFAULT 's', MODIFY `n` int INVISIBLE;
-- on both
INSERT INTO `hidden` VALUES (5, 'five');

-- 178 by hand: an index that the optimizer ignores before it goes
UPDATE `hidden` SET `n` = 1 WHERE `id` = 5;
ALTER TABLE `hidden` ADD INDEX `by_n` (`n`);
-- on mysql
ALTER TABLE `hidden` ALTER INDEX `by_n` INVISIBLE;
ALTER TABLE `hidden` ALTER INDEX `by_n` VISIBLE;
-- on mariadb
ALTER TABLE `hidden` ALTER INDEX `by_n` IGNORED;
ALTER TABLE `hidden` ALTER INDEX `by_n` NOT IGNORED;
-- on both
DELETE FROM `hidden` WHERE `id` = 1;

-- 179 by hand: JSON columns
INSERT INTO `hidden` (`id`, `secret`) VALUES (6, 'json');
ALTER TABLE `products` ADD `options` json DEFAULT NULL AFTER `title`;
UPDATE `products` SET `options` = JSON_OBJECT('colors', JSON_ARRAY('red', 'grün'), 'depth', 4) WHERE `id` < 3;
UPDATE `products` SET `options` = JSON_REMOVE(`options`, '$.depth') WHERE `id` = 1;

-- 180 by hand: the JSON column is renamed and becomes text
-- not into TiDB: it computes other values; tests/ddl_campaign has the remedy
UPDATE `products` SET `options` = '[]' WHERE `options` IS NULL;
ALTER TABLE `products` RENAME COLUMN `options` TO `extra`;
ALTER TABLE `products` MODIFY `extra` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;
UPDATE `products` SET `extra` = 'no JSON any more' WHERE `id` = 2;

-- 181 by hand: text becomes JSON
-- only within a family: each writes JSON anew in its way
CREATE TABLE `json_later` (`id` int NOT NULL PRIMARY KEY, `doc` text);
INSERT INTO `json_later` VALUES (1, '{"b":1,"a":2}'), (2, NULL);
ALTER TABLE `json_later` MODIFY `doc` json NULL;
INSERT INTO `json_later` VALUES (3, '[1, 2.5, "x"]');

-- 182 by hand: two-way checks, enforced or not
DELETE FROM `products` WHERE `sku` = 'MUG-1';
ALTER TABLE `hidden` ADD CONSTRAINT `c_low` CHECK (`more` >= 0), ADD CONSTRAINT `c_high` CHECK (`more` < 1000);
-- on mysql
ALTER TABLE `hidden` ALTER CHECK `c_high` NOT ENFORCED;
-- on both
UPDATE `hidden` SET `more` = 999;
ALTER TABLE `hidden` DROP CONSTRAINT `c_low`;
UPDATE `hidden` SET `more` = -1 WHERE `id` = 2;

-- 183 by hand: a table that refers to itself
UPDATE `categories` SET `parent_id` = NULL;
ALTER TABLE `categories` ADD CONSTRAINT `categories_parent` FOREIGN KEY (`parent_id`) REFERENCES `categories` (`id`);
UPDATE `categories` SET `parent_id` = 1 WHERE `id` > 1;
INSERT INTO `categories` (`name`, `parent_id`) VALUES ('leaf', 2);

-- 184 by hand: tables in the wrong order, foreign_key_checks off
SET SESSION foreign_key_checks = 0;
UPDATE `categories` SET `position` = 1;
CREATE TABLE `fk_child` (`id` int NOT NULL PRIMARY KEY, `parent_id` int, KEY `parent_id` (`parent_id`), CONSTRAINT `fk_child_parent` FOREIGN KEY (`parent_id`) REFERENCES `fk_parent` (`id`));
INSERT INTO `fk_child` VALUES (1, 1);
CREATE TABLE `fk_parent` (`id` int NOT NULL PRIMARY KEY);
INSERT INTO `fk_parent` VALUES (1);
SET SESSION foreign_key_checks = 1;
INSERT INTO `fk_child` VALUES (2, 1), (3, NULL);
