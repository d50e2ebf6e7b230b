-- 001 Rails: add_column :customers, :phone, :string, limit: 20
INSERT INTO `customers` (`email`, `name`, `created_at`, `updated_at`) VALUES ('ada@example.com', 'Ada', NOW(6), NOW(6)), ('bob@example.com', 'Bob', NOW(6), NOW(6)), ('çağla@example.com', 'Çağla', NOW(6), NOW(6)), ('dieter@example.com', NULL, NOW(6), NOW(6));
ALTER TABLE `customers` ADD `phone` varchar(20);
BEGIN;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240102080000');
COMMIT;
UPDATE `customers` SET `phone` = CONCAT('+49 30 ', 1000 + `id`) WHERE `id` <> 2;

-- 002 Rails: add_column :customers, :vip, :boolean, null: false, default: false
INSERT INTO `customers` (`email`, `name`, `phone`, `created_at`, `updated_at`) VALUES ('erin@example.com', 'Erin', '1', NOW(6), NOW(6));
ALTER TABLE `customers` ADD `vip` tinyint(1) DEFAULT FALSE NOT NULL;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240103080000');
UPDATE `customers` SET `vip` = TRUE WHERE `name` LIKE 'A%';

-- 003 Rails: add_index :orders, :status
INSERT INTO `products` (`sku`, `title`, `price`, `color`) VALUES ('LAMP-1', 'Lamp', 19.90, 'red'), ('LAMP-2', 'Lamp, große', 29.90, 'grün'), ('DESK-1', 'Desk', 249, NULL), ('CHAIR-1', 'Chair', 99.5, 'black');
INSERT INTO `orders` (`customer_id`, `placed_at`) SELECT `id`, NOW(6) FROM `customers`;
CREATE INDEX `index_orders_on_status` ON `orders` (`status`);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240104080000');
UPDATE `orders` SET `status` = 'paid' WHERE `id` % 2 = 0;
INSERT INTO `order_lines` (`order_id`, `product_id`, `quantity`, `price`) SELECT o.`id`, p.`id`, 1 + o.`id` % 3, p.`price` FROM `orders` o JOIN `products` p ON p.`id` <= o.`id`;

-- 004 Rails: create_table :addresses with t.references :customer, foreign_key: true
UPDATE `customers` SET `updated_at` = NOW(6);
CREATE TABLE `addresses` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `customer_id` bigint NOT NULL, `street` varchar(255), `zip` varchar(255), `city` varchar(255), `created_at` datetime(6) NOT NULL, `updated_at` datetime(6) NOT NULL, INDEX `index_addresses_on_customer_id`  (`customer_id`), CONSTRAINT `fk_rails_d5f9efddd3`
FOREIGN KEY (`customer_id`)
  REFERENCES `customers` (`id`)
);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240108080000');
INSERT INTO `addresses` (`customer_id`, `street`, `zip`, `city`, `created_at`, `updated_at`) SELECT `id`, CONCAT('Street ', `id`), '10115', 'Berlin', NOW(6), NOW(6) FROM `customers`;

-- 005 Rails: change_column :products, :title, :text
INSERT INTO `products` (`sku`, `title`) VALUES ('SOFA-1', REPEAT('so ', 60));
ALTER TABLE `products` CHANGE `title` `title` text NOT NULL;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240109080000');
INSERT INTO `products` (`sku`, `title`) VALUES ('SOFA-2', REPEAT('long ', 100));

-- 006 Rails: change_column_null :customers, :name, false, 'Unknown'
INSERT INTO `customers` (`email`, `created_at`, `updated_at`) VALUES ('fay@example.com', NOW(6), NOW(6));
UPDATE `customers` SET `name`='Unknown' WHERE `name` IS NULL;
ALTER TABLE `customers` CHANGE `name` `name` varchar(100) NOT NULL;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240110080000');
INSERT INTO `customers` (`email`, `name`, `created_at`, `updated_at`) VALUES ('gus@example.com', 'Gus', NOW(6), NOW(6));

-- 007 Rails: change_column_default :orders, :status, from: 'new', to: 'draft'
INSERT INTO `orders` (`customer_id`, `placed_at`) VALUES (1, NOW(6));
ALTER TABLE `orders` ALTER COLUMN `status` SET DEFAULT 'draft';
INSERT INTO `schema_migrations` (`version`) VALUES ('20240111080000');
INSERT INTO `orders` (`customer_id`, `placed_at`) VALUES (2, NOW(6));

-- 008 Rails: rename_column :order_lines, :price, :unit_price
UPDATE `order_lines` SET `price` = `price` * 0.9 WHERE `quantity` > 1;
ALTER TABLE `order_lines` RENAME COLUMN `price` TO `unit_price`;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240112080000');
UPDATE `order_lines` SET `unit_price` = `unit_price` + 1;

-- 009 Rails: remove_column :products, :color
DELETE FROM `products` WHERE `color` IS NULL AND `sku` = 'SOFA-1';
ALTER TABLE `products` DROP COLUMN `color`;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240115080000');
INSERT INTO `products` (`sku`, `title`, `price`) VALUES ('SHELF-1', 'Shelf', 75);

-- 010 Rails: add_index :customers, [:name, :email], algorithm: :inplace
INSERT INTO `customers` (`email`, `name`, `created_at`, `updated_at`) VALUES ('hal@example.com', 'Hal', NOW(6), NOW(6));
CREATE INDEX `index_customers_on_name_and_email` ON `customers` (`name`, `email`) ALGORITHM = INPLACE;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240116080000');
UPDATE `customers` SET `name` = UPPER(`name`) WHERE `vip`;

-- 011 Rails: create_join_table :products, :categories, no key at all
INSERT INTO `products` (`sku`, `title`, `price`) VALUES ('RUG-1', 'Rug', 120);
CREATE TABLE `categories` (`id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, `name` varchar(255), `position` int);
CREATE TABLE `categories_products` (`product_id` bigint NOT NULL, `category_id` bigint NOT NULL);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240117080000');
INSERT INTO `categories` (`name`, `position`) VALUES ('Light', 1), ('Seats', 2), ('Rest', 3);
INSERT INTO `categories_products` SELECT p.`id`, c.`id` FROM `products` p JOIN `categories` c ON (p.`id` + c.`id`) % 2 = 0;
INSERT INTO `categories_products` VALUES (1, 1), (1, 1);

-- 012 Rails: add_index :categories_products, [:product_id, :category_id]
DELETE FROM `categories_products` WHERE `product_id` = 1 LIMIT 1;
CREATE INDEX `index_categories_products_on_product_id_and_category_id` ON `categories_products` (`product_id`, `category_id`);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240118080000');
INSERT INTO `categories_products` VALUES (2, 1), (2, 3);

-- 013 Rails: change_table :orders, bulk: true
UPDATE `orders` SET `total` = 10 * `id`;
ALTER TABLE `orders` ADD `note` text, ADD `currency` varchar(3) DEFAULT 'EUR' NOT NULL, ADD `shipped_at` datetime(6), DROP INDEX `index_orders_on_status`, ADD INDEX `index_orders_on_status_and_placed_at` (`status`, `placed_at`);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240122080000');
UPDATE `orders` SET `note` = 'gift', `currency` = 'CHF', `shipped_at` = '2024-01-22 12:00:00.123456' WHERE `id` = 3;

-- 014 Rails: rename_table :addresses, :postal_addresses, with its index
UPDATE `addresses` SET `zip` = '10117' WHERE `id` = 1;
RENAME TABLE `addresses` TO `postal_addresses`;
ALTER TABLE `postal_addresses` RENAME INDEX `index_addresses_on_customer_id` TO `index_postal_addresses_on_customer_id`;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240123080000');
DELETE FROM `postal_addresses` WHERE `id` = 2;
INSERT INTO `postal_addresses` (`customer_id`, `city`, `created_at`, `updated_at`) VALUES (2, 'Köln', NOW(6), NOW(6));

-- 015 Rails: add_check_constraint :order_lines, 'quantity > 0'
DELETE FROM `order_lines` WHERE `id` = 1;
ALTER TABLE `order_lines` ADD CONSTRAINT `chk_rails_8cbe4ee2a9` CHECK (quantity > 0);
INSERT INTO `schema_migrations` (`version`) VALUES ('20240124080000');
UPDATE `order_lines` SET `quantity` = `quantity` + 1;

-- 016 Rails: add_timestamps :products, default: -> { 'CURRENT_TIMESTAMP' }
UPDATE `products` SET `price` = `price` + 0.09;
ALTER TABLE `products` ADD `created_at` datetime(6) DEFAULT CURRENT_TIMESTAMP(6) NOT NULL, ADD `updated_at` datetime(6) DEFAULT CURRENT_TIMESTAMP(6) NOT NULL;
INSERT INTO `schema_migrations` (`version`) VALUES ('20240125080000');
INSERT INTO `products` (`sku`, `title`) VALUES ('MUG-1', 'Mug');

-- 017 Rails: change_column_comment and change_table_comment
UPDATE `products` SET `title` = 'Mug, 0.3 l' WHERE `sku` = 'MUG-1';
ALTER TABLE `products` CHANGE `price` `price` decimal(8,2) DEFAULT '0.0' NOT NULL COMMENT 'net, in the shop''s currency';
ALTER TABLE `products` COMMENT 'What is sold; "sku" is printed on it';
INSERT INTO `schema_migrations` (`version`) VALUES ('20240126080000');
DELETE FROM `products` WHERE `sku` = 'RUG-1';
