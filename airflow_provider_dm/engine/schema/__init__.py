"""Tables as values: columns, keys, types; how the value of a column is read, compared and written."""
