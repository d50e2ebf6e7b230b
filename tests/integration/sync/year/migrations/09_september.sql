-- 133 Liquibase: its own tables, the log without a key
UPDATE `customers` SET `vip` = 1 WHERE `id` % 3 = 0;
CREATE TABLE DATABASECHANGELOGLOCK (ID INT NOT NULL, `LOCKED` TINYINT NOT NULL, LOCKGRANTED datetime NULL, LOCKEDBY VARCHAR(255) NULL, CONSTRAINT PK_DATABASECHANGELOGLOCK PRIMARY KEY (ID));
DELETE FROM DATABASECHANGELOGLOCK;
INSERT INTO DATABASECHANGELOGLOCK (ID, `LOCKED`) VALUES (1, 0);
UPDATE DATABASECHANGELOGLOCK SET `LOCKED` = 1, LOCKEDBY = 'host (10.0.0.1)', LOCKGRANTED = NOW() WHERE ID = 1 AND `LOCKED` = 0;
CREATE TABLE DATABASECHANGELOG (ID VARCHAR(255) NOT NULL, AUTHOR VARCHAR(255) NOT NULL, FILENAME VARCHAR(255) NOT NULL, DATEEXECUTED datetime NOT NULL, ORDEREXECUTED INT NOT NULL, EXECTYPE VARCHAR(10) NOT NULL, MD5SUM VARCHAR(35) NULL, `DESCRIPTION` VARCHAR(255) NULL, COMMENTS VARCHAR(255) NULL, TAG VARCHAR(255) NULL, LIQUIBASE VARCHAR(20) NULL, CONTEXTS VARCHAR(255) NULL, LABELS VARCHAR(255) NULL, DEPLOYMENT_ID VARCHAR(10) NULL);
CREATE TABLE supplier (id BIGINT AUTO_INCREMENT NOT NULL, name VARCHAR(100) NOT NULL, rating DECIMAL(3, 1) DEFAULT 0.0 NULL, blocked BIT(1) DEFAULT 0 NULL, since datetime DEFAULT NOW() NULL, CONSTRAINT PK_SUPPLIER PRIMARY KEY (id), UNIQUE (name)) COMMENT='suppliers';
ALTER TABLE supplier COMMENT = 'suppliers';
INSERT INTO DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, MD5SUM, `DESCRIPTION`, COMMENTS, EXECTYPE, CONTEXTS, LABELS, LIQUIBASE, DEPLOYMENT_ID) VALUES ('1', 'ann', 'db/changelog.xml', NOW(), 1, '9:d41d8cd98f00b204e9800998ecf8427e', 'createTable tableName=supplier', '', 'EXECUTED', NULL, NULL, '4.29.0', '5200000001');
UPDATE DATABASECHANGELOGLOCK SET `LOCKED` = 0, LOCKEDBY = NULL, LOCKGRANTED = NULL WHERE ID = 1;
INSERT INTO supplier (name, blocked) VALUES ('Nord', b'1'), ('Süd', b'0');

-- 134 Liquibase: addColumn with a default, addNotNullConstraint, addUniqueConstraint
INSERT INTO supplier (name, rating) VALUES ('West', 4.5);
ALTER TABLE supplier ADD country CHAR(2) DEFAULT 'DE' NULL, ADD vat VARCHAR(20) NULL;
UPDATE supplier SET vat = CONCAT('DE', id) WHERE vat IS NULL;
ALTER TABLE supplier MODIFY vat VARCHAR(20) NOT NULL;
ALTER TABLE supplier ADD CONSTRAINT UC_SUPPLIER_VAT UNIQUE (vat);
INSERT INTO DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, EXECTYPE) VALUES ('2', 'ann', 'db/changelog.xml', NOW(), 2, 'EXECUTED');
INSERT INTO supplier (name, vat, country) VALUES ('Ost', 'PL1', 'PL');

-- 135 Liquibase: renameColumn, modifyDataType, dropDefaultValue
UPDATE supplier SET rating = 5 WHERE name = 'Ost';
ALTER TABLE supplier CHANGE rating score DECIMAL(3, 1) DEFAULT 0.0 NULL;
ALTER TABLE supplier MODIFY score DOUBLE NULL;
ALTER TABLE supplier ALTER score DROP DEFAULT;
INSERT INTO DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, EXECTYPE) VALUES ('3', 'ann', 'db/changelog.xml', NOW(), 3, 'EXECUTED');
INSERT INTO supplier (name, vat, score) VALUES ('Mitte', 'AT1', 0.30000000000000004);
-- on tidb
ALTER TABLE `shop`.`supplier` MODIFY score DOUBLE NULL;

-- 136 Liquibase: a rollback, which deletes its row of a table without a key
UPDATE supplier SET country = NULL WHERE id = 1;
ALTER TABLE supplier DROP KEY UC_SUPPLIER_VAT;
DELETE FROM DATABASECHANGELOG WHERE ID = '3' AND AUTHOR = 'ann';
INSERT INTO supplier (name, vat, score) VALUES ('Mitte II', 'AT1', -0.5);

-- 137 Liquibase: tag, and its log gets an index by hand
UPDATE DATABASECHANGELOG SET TAG = 'v2.0' WHERE ID = '2';
ALTER TABLE DATABASECHANGELOG ADD INDEX ix_order (ORDEREXECUTED);
INSERT INTO DATABASECHANGELOG (ID, AUTHOR, FILENAME, DATEEXECUTED, ORDEREXECUTED, EXECTYPE) VALUES ('4', 'ben', 'db/changelog.xml', NOW(), 4, 'MARK_RAN');

-- 138 Liquibase: addPrimaryKey for the log after all
DELETE FROM DATABASECHANGELOG WHERE ID = '4';
ALTER TABLE DATABASECHANGELOG MODIFY ID VARCHAR(63) NOT NULL, MODIFY AUTHOR VARCHAR(63) NOT NULL, MODIFY FILENAME VARCHAR(200) NOT NULL;
ALTER TABLE DATABASECHANGELOG ADD PRIMARY KEY (ID, AUTHOR, FILENAME);
UPDATE DATABASECHANGELOG SET EXECTYPE = 'RERAN' WHERE ID = '1';

-- 139 Alembic: alembic_version and op.create_table
UPDATE supplier SET score = score * 2;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE invoice (
	id INTEGER NOT NULL AUTO_INCREMENT,
	number VARCHAR(32) NOT NULL,
	order_id BIGINT,
	issued DATETIME DEFAULT now() NOT NULL,
	paid BOOL NOT NULL DEFAULT false,
	amount NUMERIC(12, 2) NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT uq_invoice_number UNIQUE (number),
	CONSTRAINT ck_invoice_amount CHECK (amount >= 0)
);
CREATE INDEX ix_invoice_order_id ON invoice (order_id);
INSERT INTO alembic_version (version_num) VALUES ('1975ea83b712');
INSERT INTO invoice (number, order_id, amount) VALUES ('R-1', 3, 10.5), ('R-2', NULL, 0);

-- 140 Alembic: op.add_column, op.alter_column(nullable=False)
INSERT INTO invoice (number, amount, paid) VALUES ('R-3', 99.99, true);
ALTER TABLE invoice ADD COLUMN currency VARCHAR(3);
UPDATE invoice SET currency='EUR';
ALTER TABLE invoice MODIFY currency VARCHAR(3) NOT NULL;
UPDATE alembic_version SET version_num='27c6a30d7c24' WHERE alembic_version.version_num = '1975ea83b712';
INSERT INTO invoice (number, amount, currency) VALUES ('R-4', 1, 'CHF');

-- 141 Alembic: op.alter_column(new_column_name=…, server_default=…)
UPDATE invoice SET paid = true WHERE number = 'R-1';
ALTER TABLE invoice CHANGE paid settled BOOL NOT NULL DEFAULT false;
ALTER TABLE invoice ALTER COLUMN currency SET DEFAULT 'EUR';
UPDATE alembic_version SET version_num='3512b954651e' WHERE alembic_version.version_num = '27c6a30d7c24';
INSERT INTO invoice (number, amount) VALUES ('R-5', 2);

-- 142 Alembic: op.drop_constraint of each kind
DELETE FROM invoice WHERE number = 'R-4';
ALTER TABLE invoice DROP INDEX uq_invoice_number;
-- on mysql
ALTER TABLE invoice DROP CHECK ck_invoice_amount;
-- on mariadb
ALTER TABLE invoice DROP CONSTRAINT ck_invoice_amount;
-- on both
UPDATE alembic_version SET version_num='ae1027a6acf' WHERE alembic_version.version_num = '3512b954651e';
INSERT INTO invoice (number, amount) VALUES ('R-5', -2);

-- 143 Alembic: op.rename_table, op.drop_index, op.create_index(unique=True)
UPDATE invoice SET number = 'R-6' WHERE amount < 0;
ALTER TABLE invoice RENAME TO bill;
DROP INDEX ix_invoice_order_id ON bill;
CREATE UNIQUE INDEX ix_bill_number ON bill (number);
UPDATE alembic_version SET version_num='40a3b1c2d5e6' WHERE alembic_version.version_num = 'ae1027a6acf';
INSERT INTO bill (number, amount) VALUES ('R-7', 7);

-- 144 Alembic: downgrade
UPDATE bill SET settled = 1 - settled;
ALTER TABLE bill RENAME TO invoice;
DROP INDEX ix_bill_number ON invoice;
UPDATE alembic_version SET version_num='ae1027a6acf' WHERE alembic_version.version_num = '40a3b1c2d5e6';
INSERT INTO invoice (number, amount) VALUES ('R-7', 8);

-- 145 Doctrine: CREATE TABLE with its comments
UPDATE invoice SET amount = amount + 1;
CREATE TABLE doctrine_migration_versions (version VARCHAR(191) NOT NULL, executed_at DATETIME DEFAULT NULL, execution_time INT DEFAULT NULL, PRIMARY KEY(version)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
CREATE TABLE ticket (id INT AUTO_INCREMENT NOT NULL, customer_id BIGINT DEFAULT NULL, subject VARCHAR(255) NOT NULL, tags LONGTEXT NOT NULL COMMENT '(DC2Type:array)', created_at DATETIME NOT NULL COMMENT '(DC2Type:datetime_immutable)', uuid BINARY(16) NOT NULL COMMENT '(DC2Type:uuid)', INDEX IDX_97A0ADA39395C3F3 (customer_id), PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
ALTER TABLE ticket ADD CONSTRAINT FK_97A0ADA39395C3F3 FOREIGN KEY (customer_id) REFERENCES customers (id);
INSERT INTO doctrine_migration_versions (version, executed_at, execution_time) VALUES ('DoctrineMigrations\\Version20240910', '2024-09-10 10:00:00', 33);
INSERT INTO ticket (customer_id, subject, tags, created_at, uuid) VALUES (1, 'Lamp broken', 'a:0:{}', NOW(), UNHEX(LEFT(SHA2('1', 256), 32))), (NULL, 'Spam', 'a:1:{i:0;s:1:"x";}', NOW(), x'00000000000000000000000000000000');

-- 146 Doctrine: ADD and CHANGE in one ALTER
UPDATE ticket SET subject = 'Lamp repaired' WHERE id = 1;
ALTER TABLE ticket ADD closed_at DATETIME DEFAULT NULL, ADD priority SMALLINT NOT NULL, CHANGE subject subject VARCHAR(120) NOT NULL, CHANGE tags tags LONGTEXT DEFAULT NULL COMMENT '(DC2Type:simple_array)';
UPDATE ticket SET closed_at = NOW(), priority = 3 WHERE id = 1;

-- 147 Doctrine: DROP FOREIGN KEY and column, RENAME INDEX
INSERT INTO ticket (subject, tags, created_at, priority, uuid) VALUES ('Chair', '[]', NOW(), 1, UNHEX(LEFT(SHA2('3', 256), 32)));
CREATE TABLE agent (id INT AUTO_INCREMENT NOT NULL, name VARCHAR(50) NOT NULL, PRIMARY KEY(id)) DEFAULT CHARACTER SET utf8mb4 COLLATE `utf8mb4_unicode_ci` ENGINE = InnoDB;
ALTER TABLE ticket DROP FOREIGN KEY FK_97A0ADA39395C3F3;
ALTER TABLE ticket ADD agent_id INT DEFAULT NULL, DROP closed_at;
ALTER TABLE ticket RENAME INDEX idx_97a0ada39395c3f3 TO IDX_CUSTOMER;
INSERT INTO agent (name) VALUES ('Kim');
UPDATE ticket SET agent_id = 1 WHERE customer_id IS NULL;

-- 148 Hibernate: hbm2ddl update, lower case and constraints apart
UPDATE agent SET name = 'Kim L.';
create table audit_entry (id bigint not null auto_increment, revision integer not null, entity varchar(255), payload tinyblob, state enum ('NEW','DONE'), active bit not null, primary key (id)) engine=InnoDB;
alter table audit_entry add constraint UK_t4o7o0r1l8j9jw7y6q2n unique (entity);
alter table ticket add column sla bigint;
insert into audit_entry (revision, entity, payload, state, active) values (1, 'a', x'aced0005', 'NEW', 1), (2, null, null, null, 0);
update ticket set sla = 86400000 where id = 1;

-- 149 Goose and golang-migrate: version tables, a dirty flag
delete from audit_entry where revision = 2;
CREATE TABLE goose_db_version (id bigint(20) unsigned NOT NULL AUTO_INCREMENT, version_id bigint NOT NULL, is_applied boolean NOT NULL, tstamp timestamp NULL default now(), PRIMARY KEY(id), UNIQUE KEY id (id));
INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, true);
ALTER TABLE audit_entry ADD COLUMN note TEXT NOT NULL;
INSERT INTO goose_db_version (version_id, is_applied) VALUES (20240915, true);
UPDATE audit_entry SET note = 'was empty';

-- 150 Ecto: alter with several, and utc_datetime
INSERT INTO goose_db_version (version_id, is_applied, tstamp) VALUES (20240916, false, '2024-09-16 00:00:00');
CREATE TABLE `wishes` (`id` bigint unsigned not null auto_increment, `label` varchar(255), `inserted_at` datetime NOT NULL, `updated_at` datetime NOT NULL, PRIMARY KEY (`id`)) ENGINE = INNODB;
CREATE UNIQUE INDEX `wishes_label_index` ON `wishes` (`label`);
INSERT INTO `wishes` (`label`, `inserted_at`, `updated_at`) VALUES ('a', NOW(), NOW()), (NULL, NOW(), NOW()), (NULL, NOW(), NOW());
ALTER TABLE `wishes` ADD `rank` integer DEFAULT 0 NOT NULL, MODIFY `label` varchar(500);
UPDATE `wishes` SET `rank` = `id`;
