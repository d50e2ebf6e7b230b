"""Reading tables from a server: what there is, how it is cut into pieces, and rows as raw bytes, page by page.

Copy, verify and precheck stand on this. Nothing here writes.
"""
