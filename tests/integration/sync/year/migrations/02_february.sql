-- 018 Django: catalog.0001_initial
UPDATE `customers` SET `phone` = NULL WHERE `id` = 4;
CREATE TABLE `django_migrations` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `app` varchar(255) NOT NULL, `name` varchar(255) NOT NULL, `applied` datetime(6) NOT NULL);
CREATE TABLE `catalog_brand` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `name` varchar(80) NOT NULL UNIQUE, `slug` varchar(50) NOT NULL, `founded` date NULL);
CREATE TABLE `catalog_item` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `uuid` char(32) NOT NULL UNIQUE, `title` varchar(120) NOT NULL, `weight` double precision NULL, `stock` integer UNSIGNED NOT NULL CHECK (`stock` >= 0), `active` bool NOT NULL, `added` datetime(6) NOT NULL, `brand_id` bigint NOT NULL);
ALTER TABLE `catalog_item` ADD CONSTRAINT `catalog_item_brand_id_8e0d7a3b_fk_catalog_brand_id` FOREIGN KEY (`brand_id`) REFERENCES `catalog_brand` (`id`);
CREATE INDEX `catalog_brand_slug_2f5a1c9d` ON `catalog_brand` (`slug`);
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0001_initial', '2024-02-01 09:00:00.000001');
INSERT INTO `catalog_brand` (`name`, `slug`, `founded`) VALUES ('Acme', 'acme', '1949-09-17'), ('Hoböken', 'hoboken', NULL);
INSERT INTO `catalog_item` (`uuid`, `title`, `weight`, `stock`, `active`, `added`, `brand_id`) VALUES (LEFT(SHA2('1', 256), 32), 'Anvil', 99.5, 3, 1, NOW(6), 1), (LEFT(SHA2('2', 256), 32), 'Rope', 0.1, 40, 0, NOW(6), 2);

-- 019 Django: catalog.0002_item_tags, a m2m table
UPDATE `catalog_item` SET `stock` = `stock` + 1;
CREATE TABLE `catalog_tag` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `label` varchar(40) NOT NULL);
CREATE TABLE `catalog_item_tags` (`id` bigint AUTO_INCREMENT NOT NULL PRIMARY KEY, `item_id` bigint NOT NULL, `tag_id` bigint NOT NULL);
ALTER TABLE `catalog_item_tags` ADD CONSTRAINT `catalog_item_tags_item_id_tag_id_5e7b2f10_uniq` UNIQUE (`item_id`, `tag_id`);
ALTER TABLE `catalog_item_tags` ADD CONSTRAINT `catalog_item_tags_item_id_1c3d5e7f_fk_catalog_item_id` FOREIGN KEY (`item_id`) REFERENCES `catalog_item` (`id`);
ALTER TABLE `catalog_item_tags` ADD CONSTRAINT `catalog_item_tags_tag_id_9a8b7c6d_fk_catalog_tag_id` FOREIGN KEY (`tag_id`) REFERENCES `catalog_tag` (`id`);
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0002_item_tags', NOW(6));
INSERT INTO `catalog_tag` (`label`) VALUES ('heavy'), ('new'), ('used');
INSERT INTO `catalog_item_tags` (`item_id`, `tag_id`) VALUES (1, 1), (1, 3), (2, 2);

-- 020 Django: catalog.0003_item_featured, AddField with a default that is dropped again
INSERT INTO `catalog_item` (`uuid`, `title`, `stock`, `active`, `added`, `brand_id`) VALUES (LEFT(SHA2('3', 256), 32), 'Dynamite', 7, 1, NOW(6), 1);
ALTER TABLE `catalog_item` ADD COLUMN `featured` bool DEFAULT 0 NOT NULL;
ALTER TABLE `catalog_item` ALTER COLUMN `featured` DROP DEFAULT;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0003_item_featured', NOW(6));
INSERT INTO `catalog_item` (`uuid`, `title`, `stock`, `active`, `added`, `brand_id`, `featured`) VALUES (LEFT(SHA2('4', 256), 32), 'Magnet', 7, 1, NOW(6), 1, 1);

-- 021 Django: catalog.0004_alter_item_title, AlterField
UPDATE `catalog_item` SET `title` = CONCAT(`title`, ' ™') WHERE `brand_id` = 1;
ALTER TABLE `catalog_item` MODIFY `title` varchar(200) NOT NULL;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0004_alter_item_title', NOW(6));
UPDATE `catalog_item` SET `title` = RPAD(`title`, 180, '*') WHERE `id` = 3;

-- 022 Django: catalog.0005_rename_added, RenameField as CHANGE
UPDATE `catalog_item` SET `added` = '2024-02-05 00:00:00' WHERE `id` = 2;
ALTER TABLE `catalog_item` CHANGE `added` `created` datetime(6) NOT NULL;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0005_rename_added', NOW(6));
UPDATE `catalog_item` SET `created` = NOW(6) WHERE `id` = 1;

-- 023 Django: catalog.0006_item_maker, AddField of a nullable foreign key in one statement
INSERT INTO `catalog_brand` (`name`, `slug`) VALUES ('Umbrella', 'umbrella');
ALTER TABLE `catalog_item` ADD COLUMN `maker_id` bigint NULL , ADD CONSTRAINT `catalog_item_maker_id_4d2f6b81_fk_catalog_brand_id` FOREIGN KEY (`maker_id`) REFERENCES `catalog_brand`(`id`);
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0006_item_maker', NOW(6));
UPDATE `catalog_item` SET `maker_id` = 3 WHERE `id` > 2;

-- 024 Django: catalog.0007_remove_item_maker, constraint first
UPDATE `catalog_item` SET `maker_id` = NULL WHERE `id` = 3;
ALTER TABLE `catalog_item` DROP FOREIGN KEY `catalog_item_maker_id_4d2f6b81_fk_catalog_brand_id`;
ALTER TABLE `catalog_item` DROP COLUMN `maker_id`;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0007_remove_item_maker', NOW(6));
DELETE FROM `catalog_brand` WHERE `id` = 3;

-- 025 Django: catalog.0008 unique_together and an index with a descending part
INSERT INTO `catalog_item` (`uuid`, `title`, `stock`, `active`, `created`, `brand_id`, `featured`) VALUES (LEFT(SHA2('5', 256), 32), 'Rocket', 1, 1, NOW(6), 2, 0);
ALTER TABLE `catalog_item` ADD CONSTRAINT `catalog_item_brand_id_title_0f9e8d7c_uniq` UNIQUE (`brand_id`, `title`);
CREATE INDEX `catalog_item_active_6a5b_idx` ON `catalog_item` (`active`, `created` DESC);
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0008_indexes', NOW(6));
UPDATE `catalog_item` SET `title` = 'Rocket II' WHERE `title` = 'Rocket';

-- 026 Django: catalog.0009 drops them again
UPDATE `catalog_item` SET `active` = 0 WHERE `id` = 1;
CREATE INDEX `catalog_item_brand_id_8e0d7a3b_fk` ON `catalog_item` (`brand_id`);
ALTER TABLE `catalog_item` DROP INDEX `catalog_item_brand_id_title_0f9e8d7c_uniq`;
DROP INDEX `catalog_item_active_6a5b_idx` ON `catalog_item`;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0009_indexes', NOW(6));
INSERT INTO `catalog_item` (`uuid`, `title`, `stock`, `active`, `created`, `brand_id`, `featured`) VALUES (LEFT(SHA2('6', 256), 32), 'Rocket II', 1, 1, NOW(6), 2, 0);

-- 027 Django: catalog.0010 AlterField null=True, weight to decimal
UPDATE `catalog_item` SET `weight` = 12.25 WHERE `id` = 4;
ALTER TABLE `catalog_item` MODIFY `weight` numeric(8, 3) NULL;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0010_alter_item_weight', NOW(6));
UPDATE `catalog_item` SET `weight` = 0.125 WHERE `id` = 5;
-- on tidb
ALTER TABLE `shop`.`catalog_item` MODIFY `weight` numeric(8, 3) NULL;

-- 028 Django: catalog.0011 AlterModelTable
UPDATE `catalog_tag` SET `label` = 'brand new' WHERE `id` = 2;
RENAME TABLE `catalog_tag` TO `catalog_label`;
ALTER TABLE `catalog_item_tags` DROP FOREIGN KEY `catalog_item_tags_tag_id_9a8b7c6d_fk_catalog_tag_id`;
ALTER TABLE `catalog_item_tags` ADD CONSTRAINT `catalog_item_tags_tag_id_9a8b7c6d_fk_catalog_label_id` FOREIGN KEY (`tag_id`) REFERENCES `catalog_label` (`id`);
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0011_rename_tag', NOW(6));
INSERT INTO `catalog_label` (`label`) VALUES ('gone soon');
INSERT INTO `catalog_item_tags` (`item_id`, `tag_id`) VALUES (2, 4);

-- 029 Django: catalog.0012 CheckConstraint
UPDATE `catalog_item` SET `stock` = 100 WHERE `id` = 2;
ALTER TABLE `catalog_item` ADD CONSTRAINT `catalog_item_weight_positive` CHECK ((`weight` IS NULL OR `weight` > 0));
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0012_weight_positive', NOW(6));
UPDATE `catalog_item` SET `weight` = 4 WHERE `weight` IS NULL;

-- 030 Django: catalog.0013 RemoveConstraint
UPDATE `catalog_item` SET `weight` = 5 WHERE `id` = 6;
ALTER TABLE `catalog_item` DROP CONSTRAINT `catalog_item_weight_positive`;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0013_weight_any', NOW(6));
UPDATE `catalog_item` SET `weight` = -1 WHERE `id` = 6;

-- 031 Django: catalog.0014 JSONField
INSERT INTO `catalog_label` (`label`) VALUES ('json');
ALTER TABLE `catalog_item` ADD COLUMN `attributes` json NULL;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('catalog', '0014_item_attributes', NOW(6));
UPDATE `catalog_item` SET `attributes` = '{"size": [1, 2, 3], "näme": "ö", "deep": {"a": null, "b": true}}' WHERE `id` = 1;
UPDATE `catalog_item` SET `attributes` = JSON_SET(`attributes`, '$.size', 'XL') WHERE `id` = 1;

-- 032 Django: auth and sessions as contrib apps make them
INSERT INTO `catalog_brand` (`name`, `slug`) VALUES ('Stark', 'stark');
CREATE TABLE `auth_user` (`id` integer AUTO_INCREMENT NOT NULL PRIMARY KEY, `password` varchar(128) NOT NULL, `last_login` datetime(6) NULL, `is_superuser` bool NOT NULL, `username` varchar(150) NOT NULL UNIQUE, `email` varchar(254) NOT NULL, `is_staff` bool NOT NULL, `date_joined` datetime(6) NOT NULL);
CREATE TABLE `django_session` (`session_key` varchar(40) NOT NULL PRIMARY KEY, `session_data` longtext NOT NULL, `expire_date` datetime(6) NOT NULL);
CREATE INDEX `django_session_expire_date_a5c62663` ON `django_session` (`expire_date`);
CREATE TABLE `django_content_type` (`id` integer AUTO_INCREMENT NOT NULL PRIMARY KEY, `name` varchar(100) NOT NULL, `app_label` varchar(100) NOT NULL, `model` varchar(100) NOT NULL);
ALTER TABLE `django_content_type` ADD CONSTRAINT `django_content_type_app_label_model_76bd3d3b_uniq` UNIQUE (`app_label`, `model`);
ALTER TABLE `django_content_type` MODIFY `name` varchar(100) NULL;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('contenttypes', '0001_initial', NOW(6));
INSERT INTO `auth_user` (`password`, `is_superuser`, `username`, `email`, `is_staff`, `date_joined`) VALUES ('!', 1, 'root', '', 1, NOW(6));
INSERT INTO `django_session` VALUES (LEFT(SHA2('s1', 256), 40), REPEAT('x', 300), '2024-03-01'), (LEFT(SHA2('s2', 256), 40), 'eyJ', '2024-03-02');
INSERT INTO `django_content_type` (`app_label`, `model`) VALUES ('catalog', 'item'), ('auth', 'user');

-- 033 Django: contenttypes.0002_remove_content_type_name
UPDATE `django_content_type` SET `name` = `model`;
ALTER TABLE `django_content_type` DROP COLUMN `name`;
INSERT INTO `django_migrations` (`app`, `name`, `applied`) VALUES ('contenttypes', '0002_remove_content_type_name', NOW(6));
INSERT INTO `django_content_type` (`app_label`, `model`) VALUES ('sessions', 'session');

-- 034 Django: sessions are thrown away, manage.py clearsessions and TRUNCATE
DELETE FROM `django_session` WHERE `expire_date` < '2024-03-02';
TRUNCATE TABLE `django_session`;
INSERT INTO `django_session` VALUES (LEFT(SHA2('s3', 256), 40), 'e30', '2024-04-01');
