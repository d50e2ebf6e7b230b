"""DDL as values: SQL text is tokenized by one lexer and parsed to frozen statements. No connection, no decision."""
