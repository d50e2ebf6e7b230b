-- 000 Rails: rails db:schema:load, before anybody migrates
CREATE TABLE `schema_migrations` (`version` varchar(255) NOT NULL PRIMARY KEY);
CREATE TABLE `customers` (
  `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `email` varchar(255) NOT NULL,
  `name` varchar(100),
  `created_at` datetime(6) NOT NULL,
  `updated_at` datetime(6) NOT NULL,
  UNIQUE INDEX `index_customers_on_email` (`email`)
);
CREATE TABLE `products` (
  `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `sku` varchar(20) NOT NULL,
  `title` varchar(200) NOT NULL,
  `price` decimal(8,2) DEFAULT '0.0' NOT NULL,
  `color` varchar(20),
  UNIQUE INDEX `index_products_on_sku` (`sku`)
);
CREATE TABLE `orders` (
  `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `customer_id` bigint NOT NULL,
  `status` varchar(20) DEFAULT 'new' NOT NULL,
  `total` decimal(10,2) DEFAULT '0.0' NOT NULL,
  `placed_at` datetime(6) NOT NULL,
  INDEX `index_orders_on_customer_id` (`customer_id`)
);
CREATE TABLE `order_lines` (
  `id` bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  `order_id` bigint NOT NULL,
  `product_id` bigint NOT NULL,
  `quantity` int DEFAULT 1 NOT NULL,
  `price` decimal(8,2) NOT NULL,
  INDEX `index_order_lines_on_order_id` (`order_id`)
);
