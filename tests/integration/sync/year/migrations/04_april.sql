-- 052 Laravel: create_users_table
UPDATE `customers` SET `phone` = '0' WHERE `phone` IS NULL;
create table `migrations` (`id` int unsigned not null auto_increment primary key, `migration` varchar(255) not null, `batch` int not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
create table `users` (`id` bigint unsigned not null auto_increment primary key, `name` varchar(255) not null, `email` varchar(255) not null, `email_verified_at` timestamp null, `password` varchar(255) not null, `remember_token` varchar(100) null, `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `users` add unique `users_email_unique`(`email`);
insert into `migrations` (`migration`, `batch`) values ('2014_10_12_000000_create_users_table', 1);
insert into `users` (`name`, `email`, `password`, `created_at`) values ('Ada', 'ada@x.org', '$2y$10$', '2024-04-01 10:00:00'), ('Bob', 'bob@x.org', '$2y$10$', null);

-- 053 Laravel: create_posts_table with a foreign key
update `users` set `remember_token` = LEFT(SHA2(`id`, 256), 32);
create table `posts` (`id` bigint unsigned not null auto_increment primary key, `user_id` bigint unsigned not null, `title` varchar(191) not null, `body` mediumtext not null, `state` enum('draft', 'public') not null default 'draft', `rating` double not null default '0', `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `posts` add constraint `posts_user_id_foreign` foreign key (`user_id`) references `users` (`id`);
insert into `migrations` (`migration`, `batch`) values ('2024_04_02_000000_create_posts_table', 1);
insert into `posts` (`user_id`, `title`, `body`, `rating`) values (1, 'Hello', 'World', 0.1), (2, 'Grüße', 'Welt 🌍', 1e-7);

-- 054 Laravel: soft deletes
update `posts` set `state` = 'public' where `id` = 1;
alter table `posts` add `deleted_at` timestamp null;
insert into `migrations` (`migration`, `batch`) values ('2024_04_03_000000_add_deleted_at_to_posts', 2);
update `posts` set `deleted_at` = '2024-04-03 00:00:01' where `id` = 2;

-- 055 Laravel: a column after another, and a first one
insert into `posts` (`user_id`, `title`, `body`) values (1, 'Third', '');
alter table `posts` add `slug` varchar(191) not null default '' after `title`, add `uuid` char(36) null first;
update `posts` set `slug` = lower(`title`), `uuid` = '6fa459ea-ee8a-3ca4-894e-db77e160355e' where `id` <> 2;

-- 056 Laravel: morphs
update `posts` set `body` = concat(`body`, '!');
create table `comments` (`id` bigint unsigned not null auto_increment primary key, `commentable_type` varchar(255) not null, `commentable_id` bigint unsigned not null, `text` text not null, `ip` varchar(45) null, `created_at` timestamp null, `updated_at` timestamp null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `comments` add index `comments_commentable_type_commentable_id_index`(`commentable_type`, `commentable_id`);
insert into `comments` (`commentable_type`, `commentable_id`, `text`, `ip`) values ('App\\Models\\Post', 1, 'It''s "good"', '::1'), ('App\\Models\\Post', 2, 'tab\there', null);

-- 057 Laravel: renameColumn and change()
update `comments` set `ip` = '127.0.0.1' where `ip` is null;
alter table `comments` rename column `text` to `body`;
alter table `comments` modify `ip` varchar(64) not null default '0.0.0.0' comment 'of the author';
insert into `comments` (`commentable_type`, `commentable_id`, `body`) values ('App\\Models\\User', 1, 'me');

-- 058 Laravel: drop several columns
update `posts` set `rating` = 5 where `id` = 1;
alter table `posts` drop `rating`, drop `uuid`;
insert into `posts` (`user_id`, `title`, `slug`, `body`) values (2, 'Fourth', 'fourth', '…');

-- 059 Laravel: cache, jobs and sessions tables
delete from `comments` where `id` = 1;
create table `cache` (`key` varchar(255) not null, `value` mediumtext not null, `expiration` int not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `cache` add primary key (`key`);
create table `jobs` (`id` bigint unsigned not null auto_increment primary key, `queue` varchar(255) not null, `payload` longtext not null, `attempts` tinyint unsigned not null, `reserved_at` int unsigned null, `available_at` int unsigned not null, `created_at` int unsigned not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
alter table `jobs` add index `jobs_queue_index`(`queue`);
insert into `cache` values ('a', 'i:1;', 1712000000), ('b', 's:1:"x";', 1712000001);
insert into `jobs` (`queue`, `payload`, `attempts`, `available_at`, `created_at`) values ('default', '{"job":"A"}', 0, 1, 1), ('mail', '{"job":"B"}', 255, 4294967295, 1);

-- 060 Laravel: php artisan cache:clear, queue:flush
replace into `cache` values ('a', 'i:2;', 1712000009);
truncate table `cache`;
truncate table `jobs`;
insert into `cache` values ('c', 'N;', 0);
insert into `jobs` (`queue`, `payload`, `attempts`, `available_at`, `created_at`) values ('default', '{}', 0, 1, 1);

-- 061 Laravel: startingValue and a table comment
delete from `jobs`;
alter table `jobs` auto_increment = 5000;
alter table `jobs` comment = 'queue of the shop';
insert into `jobs` (`queue`, `payload`, `attempts`, `available_at`, `created_at`) values ('default', '{}', 0, 1, 1);

-- 062 Laravel: dropUnique, add it over two columns
insert into `users` (`name`, `email`, `password`) values ('Cyd', 'cyd@x.org', '');
alter table `users` drop index `users_email_unique`;
alter table `users` add unique `users_email_name_unique`(`email`, `name`);
insert into `users` (`name`, `email`, `password`) values ('Cyd II', 'cyd@x.org', '');

-- 063 Laravel: renameIndex, dropForeign
update `users` set `email` = 'cyd2@x.org' where `name` = 'Cyd II';
alter table `users` rename index `users_email_name_unique` to `users_mail_unique`;
alter table `posts` drop foreign key `posts_user_id_foreign`;
insert into `posts` (`user_id`, `title`, `body`) values (77, 'by nobody', '');

-- 064 Laravel: set, year, time, unsigned decimal
update `posts` set `title` = 'by somebody' where `user_id` = 77;
create table `shifts` (`id` int unsigned not null auto_increment primary key, `days` set('mo', 'tu', 'we') not null default 'mo,we', `since` year not null, `starts` time(0) not null, `pay` decimal(8, 2) unsigned not null) default character set utf8mb4 collate 'utf8mb4_unicode_ci';
insert into `shifts` (`days`, `since`, `starts`, `pay`) values ('', 2024, '08:30:00', 13.5), (default, 1999, '-12:00:00', 999999.99);
alter table `shifts` modify `days` set('mo', 'tu', 'we', 'th', 'fr') not null default 'mo,we', add `ends` time(3) null;
update `shifts` set `days` = 'mo,fr', `ends` = '17:15:00.250';

-- 065 Laravel: fulltext and prefix indexes
insert into `shifts` (`since`, `starts`, `pay`) values (2001, '00:00:01', 0);
alter table `posts` add fulltext `posts_body_fulltext`(`body`);
alter table `posts` add index `posts_title_index`(`title`(20));
update `posts` set `body` = 'full text' where `id` = 1;

-- 066 Laravel: rename a table
update `comments` set `body` = 'bye' where `id` = 2;
rename table `comments` to `remarks`;
insert into `migrations` (`migration`, `batch`) values ('2024_04_28_000000_rename_comments', 3);
update `remarks` set `body` = 'hello' where `id` = 2;

-- 067 Laravel: migrate:rollback
delete from `migrations` where `batch` = 3;
rename table `remarks` to `comments`;
insert into `comments` (`commentable_type`, `commentable_id`, `body`) values ('App\\Models\\User', 2, 'back');

-- 068 Laravel: dropIfExists of what is there and of what is not
delete from `shifts` where `since` = 1999;
drop table if exists `shifts`;
drop table if exists `never_was`;
insert into `migrations` (`migration`, `batch`) values ('2024_04_30_000000_drop_shifts', 3);
