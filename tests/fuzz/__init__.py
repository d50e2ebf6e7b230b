"""Damaged binlogs: what comes out is a typed error, or exactly what the bytes say, never a crash or an invented row.

    python -m tests.fuzz --cases 20000                  what the test runs
    python -m tests.fuzz --case SEED:NUMBER             one case again, with everything that it says
    python -m tests.fuzz --seconds 3600 --corpus DIR    guided by coverage (needs `pip install atheris`)

The promise, for a log whose events carry checksums that were not repaired: if the log is finished (a file follows) and
holds an event whose checksum is not that of its bytes, or one that is torn, reading it ends in a DmError; rows come
only from transactions before that event. For any other log: reading ends, within three seconds of CPU time and
512 MiB, in a DmError or in rows, and those are what the bytes say.

What the bytes say is decided without the engine: `writer` makes logs, `forms` turns canonical values into cells,
`anatomy` takes events apart, and `oracle` walks a log naively and compares. `mutate` damages, `subject` runs the engine
(every way to decode there is, and they must agree), `cases` puts one case together, `campaign` runs many in processes
of their own.
"""
