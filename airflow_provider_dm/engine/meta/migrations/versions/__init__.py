"""One file for each revision, numbered."""
