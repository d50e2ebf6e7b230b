"""`python -m tests.reference`: write all pages of docs/reference."""

from tests.reference import FOLDER, REFERENCE

for name, made in REFERENCE.items():
    (FOLDER / name).write_text(made())
