"""Hot loops of the binlog package, compiled by numba: checksums, header scan, row bounds, text.

Each kernel has a plain twin in Python that is its specification (`boundary`, `rows`, `row_decoder`), and does only what
ordinary events and values need. Where it meets anything else it stops in front of it and says so; the twin then takes
that one event or row, and raises the error if it is one. So what is unusual is written once, and slowly.

    machine     what numba has no word for: unaligned loads and stores, carry-less and wide multiplication
    crc32       the checksum of an event
    digits      integers as text
    floats      shortest decimal text of a double
    times       dates and times as text
    cells       one cell of a row image as canonical text
    rows        row images as cells, side by side
    literals    cells side by side as the tuples of an INSERT
    split       events to row images
    headers     events to transactions, by their headers
    build       how kernels are compiled, kept on disk and found again
    cache       what numba wants to know for that
"""
