-- 101 Prisma: 20240701090000_init
UPDATE `customers` SET `phone` = '+1' WHERE `id` = 1;
CREATE TABLE `_prisma_migrations` (
    `id`                    VARCHAR(36) PRIMARY KEY NOT NULL,
    `checksum`              VARCHAR(64) NOT NULL,
    `finished_at`           DATETIME(3),
    `migration_name`        VARCHAR(255) NOT NULL,
    `logs`                  TEXT,
    `rolled_back_at`        DATETIME(3),
    `started_at`            DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    `applied_steps_count`   INTEGER UNSIGNED NOT NULL DEFAULT 0
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
INSERT INTO `_prisma_migrations` (`id`, `checksum`, `started_at`, `migration_name`) VALUES ('0c1d2e3f-0000-4000-8000-000000000001', SHA2('x', 256), '2024-07-01 09:00:00.123', '20240701090000_init');
CREATE TABLE `Cart` (
    `id` VARCHAR(191) NOT NULL,
    `customerId` BIGINT NULL,
    `createdAt` DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    `updatedAt` DATETIME(3) NOT NULL,
    `state` ENUM('OPEN', 'CLOSED') NOT NULL DEFAULT 'OPEN',
    `total` DECIMAL(65, 30) NOT NULL DEFAULT 0,
    `raw` LONGBLOB NULL,

    UNIQUE INDEX `Cart_customerId_key`(`customerId`),
    PRIMARY KEY (`id`)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
INSERT INTO `Cart` (`id`, `customerId`, `updatedAt`, `total`, `raw`) VALUES ('ckx1', 1, NOW(3), 0.100000000000000000000000000001, x'00ff27'), ('ckx2', NULL, NOW(3), 3, NULL);
UPDATE `_prisma_migrations` SET `finished_at` = '2024-07-01 09:00:01.5', `applied_steps_count` = `applied_steps_count` + 1 WHERE `id` = '0c1d2e3f-0000-4000-8000-000000000001';

-- 102 Prisma: AlterTable with several parts, and a comment in front
INSERT INTO `Cart` (`id`, `customerId`, `updatedAt`) VALUES ('ckx3', 2, NOW(3));
/*
  Warnings:

  - You are about to drop the column `raw` on the `Cart` table. All the data in the column will be lost.

*/
ALTER TABLE `Cart` DROP COLUMN `raw`,
    ADD COLUMN `coupon` VARCHAR(191) NULL,
    ADD COLUMN `guest` BOOLEAN NOT NULL DEFAULT false,
    MODIFY `total` DECIMAL(10, 2) NOT NULL DEFAULT 0.00;
UPDATE `Cart` SET `coupon` = 'JULY', `guest` = true WHERE `customerId` IS NULL;

-- 103 Prisma: a relation, its foreign key and index
DELETE FROM `Cart` WHERE `id` = 'ckx3';
CREATE TABLE `CartItem` (`cartId` VARCHAR(191) NOT NULL, `position` INTEGER NOT NULL, `sku` VARCHAR(191) NOT NULL, `qty` INTEGER NOT NULL DEFAULT 1, PRIMARY KEY (`cartId`, `position`)) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
ALTER TABLE `CartItem` ADD CONSTRAINT `CartItem_cartId_fkey` FOREIGN KEY (`cartId`) REFERENCES `Cart`(`id`) ON DELETE RESTRICT ON UPDATE RESTRICT;
CREATE INDEX `CartItem_sku_idx` ON `CartItem`(`sku`);
INSERT INTO `CartItem` VALUES ('ckx1', 1, 'LAMP-1', 1), ('ckx1', 2, 'lamp-1', 2), ('ckx2', 1, 'DESK-1', 1);

-- 104 Prisma: the enum gets a value, an index becomes unique
UPDATE `CartItem` SET `qty` = 4 WHERE `position` = 2;
ALTER TABLE `Cart` MODIFY `state` ENUM('OPEN', 'CLOSED', 'ABANDONED') NOT NULL DEFAULT 'OPEN';
CREATE UNIQUE INDEX `Cart_coupon_key` ON `Cart`(`coupon`);
UPDATE `Cart` SET `state` = 'ABANDONED' WHERE `coupon` IS NOT NULL;

-- 105 Prisma: the primary key is redefined
UPDATE `CartItem` SET `position` = `position` + 10 ORDER BY `position` DESC;
CREATE INDEX `CartItem_cartId_idx` ON `CartItem`(`cartId`);
ALTER TABLE `CartItem` DROP PRIMARY KEY,
    ADD COLUMN `id` INTEGER NOT NULL DEFAULT 0;
UPDATE `CartItem` SET `id` = `position` + IF(`cartId` = 'ckx1', 0, 100);
ALTER TABLE `CartItem` ADD PRIMARY KEY (`id`), ALTER `id` DROP DEFAULT;
INSERT INTO `CartItem` (`id`, `cartId`, `position`, `sku`) VALUES (7, 'ckx2', 1, 'MUG-1');
-- on tidb
CREATE TABLE `anew` (`cartId` VARCHAR(191) NOT NULL, `position` INTEGER NOT NULL, `sku` VARCHAR(191) NOT NULL, `qty` INTEGER NOT NULL DEFAULT 1, `id` INTEGER NOT NULL DEFAULT 0, INDEX `CartItem_sku_idx`(`sku`), INDEX `CartItem_cartId_idx`(`cartId`)) COLLATE utf8mb4_unicode_ci; INSERT INTO `anew` (`cartId`, `position`, `sku`, `qty`) SELECT * FROM `CartItem`; DROP TABLE `CartItem`; RENAME TABLE `anew` TO `CartItem`;

-- 106 Prisma: RenameIndex, RenameForeignKey by drop and add
UPDATE `CartItem` SET `qty` = 2 WHERE `id` = 7;
ALTER TABLE `Cart` RENAME INDEX `Cart_coupon_key` TO `Cart_coupon_unique`;
ALTER TABLE `CartItem` DROP FOREIGN KEY `CartItem_cartId_fkey`;
ALTER TABLE `CartItem` ADD CONSTRAINT `CartItem_cart_fkey` FOREIGN KEY (`cartId`) REFERENCES `Cart`(`id`);
DELETE FROM `CartItem` WHERE `id` = 7;

-- 107 TypeORM: IDX_ and FK_ hashes, CREATE TABLE without a space
UPDATE `Cart` SET `guest` = 0;
CREATE TABLE `typeorm_migrations` (`id` int NOT NULL AUTO_INCREMENT, `timestamp` bigint NOT NULL, `name` varchar(255) NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB;
CREATE TABLE `review` (`id` int NOT NULL AUTO_INCREMENT, `productId` bigint NULL, `stars` tinyint NOT NULL DEFAULT '5', `text` text NULL, `createdAt` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), `updatedAt` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), INDEX `IDX_2a11d3c0ea1b2b5b1790f762b9` (`productId`), PRIMARY KEY (`id`)) ENGINE=InnoDB;
INSERT INTO `typeorm_migrations`(`timestamp`, `name`) VALUES (1720000000000, 'Review1720000000000');
INSERT INTO `review` (`productId`, `text`) VALUES (1, 'good'), (2, NULL);
UPDATE `review` SET `stars` = 1 WHERE `id` = 2;

-- 108 TypeORM: CHANGE of a column, and back by another migration
UPDATE `review` SET `text` = 'ok' WHERE `text` IS NULL;
ALTER TABLE `review` CHANGE `text` `body` text NULL;
ALTER TABLE `review` CHANGE `stars` `stars` smallint UNSIGNED NOT NULL DEFAULT '5';
INSERT INTO `typeorm_migrations`(`timestamp`, `name`) VALUES (1720000000001, 'Stars1720000000001');
INSERT INTO `review` (`productId`, `body`, `stars`) VALUES (3, 'x', 65535);

-- 109 TypeORM: a column dropped and added instead of changed
UPDATE `review` SET `body` = 'lost' WHERE `id` = 1;
ALTER TABLE `review` DROP COLUMN `body`;
ALTER TABLE `review` ADD `body` varchar(500) NOT NULL;
UPDATE `review` SET `body` = CONCAT('new ', `id`);

-- 110 TypeORM: a relation
INSERT INTO `review` (`productId`, `body`) VALUES (NULL, 'no product');
ALTER TABLE `review` ADD CONSTRAINT `FK_2a11d3c0ea1b2b5b1790f762b9a` FOREIGN KEY (`productId`) REFERENCES `products`(`id`) ON DELETE NO ACTION ON UPDATE NO ACTION;
UPDATE `review` SET `productId` = 4 WHERE `productId` IS NULL;

-- 111 Sequelize: CREATE TABLE IF NOT EXISTS, inline ENUM, UNIQUE
UPDATE `review` SET `stars` = 2 WHERE `id` = 1;
CREATE TABLE IF NOT EXISTS `SequelizeMeta` (`name` VARCHAR(255) NOT NULL , UNIQUE `SequelizeMeta_name_unique` (`name`), PRIMARY KEY (`name`)) ENGINE=InnoDB;
CREATE TABLE IF NOT EXISTS `Shipments` (`id` INTEGER auto_increment , `carrier` ENUM('dhl', 'ups') DEFAULT 'dhl', `tracking` VARCHAR(255) UNIQUE, `weight` FLOAT, `createdAt` DATETIME NOT NULL, `updatedAt` DATETIME NOT NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
INSERT INTO `SequelizeMeta` (`name`) VALUES ('20240710-shipments.js');
INSERT INTO `Shipments` (`id`,`tracking`,`weight`,`createdAt`,`updatedAt`) VALUES (DEFAULT,'T1',0.3,NOW(),NOW()),(DEFAULT,NULL,1e5,NOW(),NOW());

-- 112 Sequelize: addColumn, changeColumn, renameColumn
UPDATE `Shipments` SET `carrier` = 'ups' WHERE `id` = 2;
ALTER TABLE `Shipments` ADD `insured` TINYINT(1) DEFAULT false;
ALTER TABLE `Shipments` CHANGE `weight` `weight` DOUBLE(10,3) NOT NULL DEFAULT 0;
ALTER TABLE `Shipments` CHANGE `tracking` `trackingCode` VARCHAR(255);
UPDATE `Shipments` SET `insured` = 1, `weight` = 12.3456 WHERE `id` = 1;
-- on tidb
ALTER TABLE `shop`.`Shipments` CHANGE `weight` `weight` DOUBLE(10,3) NOT NULL DEFAULT 0;

-- 113 Sequelize: addIndex, removeIndex, addConstraint
INSERT INTO `Shipments` (`trackingCode`,`createdAt`,`updatedAt`) VALUES ('T3',NOW(),NOW());
ALTER TABLE `Shipments` ADD INDEX `shipments_carrier_created_at` (`carrier`, `createdAt`);
DROP INDEX `tracking` ON `Shipments`;
ALTER TABLE `Shipments` ADD CONSTRAINT `shipments_code_carrier_uk` UNIQUE (`trackingCode`, `carrier`);
INSERT INTO `Shipments` (`carrier`,`trackingCode`,`createdAt`,`updatedAt`) VALUES ('ups','T3',NOW(),NOW());

-- 114 Knex: its tables, a lock and a batch
DELETE FROM `Shipments` WHERE `carrier` = 'ups' AND `trackingCode` IS NULL;
create table `knex_migrations` (`id` int unsigned not null auto_increment primary key, `name` varchar(255), `batch` int, `migration_time` timestamp default CURRENT_TIMESTAMP);
create table `knex_migrations_lock` (`index` int unsigned not null auto_increment primary key, `is_locked` int);
insert into `knex_migrations_lock` (`is_locked`) values (0);
update `knex_migrations_lock` set `is_locked` = 1 where `is_locked` = 0;
create table `coupons` (`id` int unsigned not null auto_increment primary key, `code` varchar(255) not null, `percent` int null, `valid_until` timestamp null);
alter table `coupons` add unique `coupons_code_unique`(`code`);
insert into `knex_migrations` (`name`, `batch`, `migration_time`) values ('20240720_coupons.js', 1, '2024-07-20 12:00:00');
update `knex_migrations_lock` set `is_locked` = 0;
insert into `coupons` (`code`, `percent`, `valid_until`) values ('JULY', 10, '2024-07-31 23:59:59'), ('AUG', null, null);

-- 115 Knex: alter with timestamps
update `coupons` set `percent` = 15;
alter table `coupons` add `created_at` timestamp not null default CURRENT_TIMESTAMP, add `updated_at` timestamp not null default CURRENT_TIMESTAMP;
alter table `coupons` modify `percent` tinyint unsigned not null default '5';
insert into `coupons` (`code`) values ('SEP');

-- 116 Knex: a failed batch is rolled back by hand
insert into `coupons` (`code`) values ('OCT');
alter table `coupons` drop `created_at`, drop `updated_at`;
delete from `knex_migrations` where `batch` = 1;
update `coupons` set `valid_until` = now() where `code` = 'OCT';
