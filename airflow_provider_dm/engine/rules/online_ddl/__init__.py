"""Online DDL of gh-ost, pt-online-schema-change and their like, made the ALTER that it stands for."""
