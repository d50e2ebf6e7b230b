"""DDL as values: SQL text cut once, by one lexer, and what it says as frozen statements. No connection, no decision."""
