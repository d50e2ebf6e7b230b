"""Hot loops of the binlog package, compiled by numba: checksums, header scan, row bounds, text.

Each kernel has a reference implementation in Python (`boundary`, `rows`, `row_decoder`), and supports
only ordinary events and values. At any other event or row it stops with a status; the reference implementation then
handles that event or row, and raises the error if it is invalid. So unusual cases are implemented once, in slow code.

    machine     operations that numba lacks: unaligned loads and stores, carry-less and wide multiplication
    crc32       the checksum of an event
    digits      integers as text, and back
    floats      shortest decimal text of a double
    times       dates and times as text
    cells       one cell of a row image as canonical text
    rows        row images as cells, side by side
    literals    cells side by side as the tuples of an INSERT
    parameters  cells side by side as the parameters of a bulk execution
    split       events to row images
    chains      consecutive changes of one row as one
    headers     events to transactions, by their headers
    build       compilation of the kernels, and their cache on disk
    cache       numba's interface to that cache
"""
