"""Online DDL of gh-ost, pt-online-schema-change and similar tools, replaced by the ALTER TABLE that it performs."""
