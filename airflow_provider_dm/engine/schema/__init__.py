"""Tables as values: columns, keys, types; how a column's value is read, compared and written."""
