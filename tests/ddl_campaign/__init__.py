"""Statements of both families, followed from real servers into each target: `docker/local ddl`.

`cases` reads the tables of statements (statements/*.txt), `campaign` runs them, `comparing` compares both servers
without code of the product."""
