"""The downstream database: sessions, transactions, SQL text, and the tables that commit together with the data."""
