"""Passwords in the form that `dmctl encrypt` writes: base64 of an AES vector, "@", and the cipher text (AES-256, CFB).

Up to release 7 every DM has the same key, so the form only protects against accidental reading. From 8.0 on DM's
masters have their own key, in the file that `secret-key-path` names; here SECRET_KEY_VARIABLE names that file. The form
has no checksum: a wrong key is detected only if the result cannot be a password."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from airflow_provider_dm.engine.config.errors import CannotDecrypt

SECRET_KEY_VARIABLE: Final = "DM_SECRET_KEY_FILE"
_VECTOR: Final = 16
_KEY_BYTES: Final = 32
_PUBLISHED_KEY: Final = bytes.fromhex("a529b7665997f043a30ac8fadcb51d6aa032c226ab5b7750530b12b8c1a16a48")
"""The key of all DMs before 8.0; not a secret."""


def looks_encrypted(password: str) -> bool:
    """Return True if text has the form that `dmctl encrypt` prints.

    >>> looks_encrypted("/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs=")
    True
    >>> looks_encrypted("hunter2")
    False
    """
    try:
        data = base64.b64decode(password, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(data) > _VECTOR and data[_VECTOR : _VECTOR + 1] == b"@"


def decrypted(password: str, environ: Mapping[str, str]) -> str:
    """Return the password in a text for which `looks_encrypted` is True. Raises CannotDecrypt.

    >>> decrypted("/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs=", {})
    '123456'
    """
    # Imported here: parsing a DAG needs no cipher.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    data = base64.b64decode(password)
    vector, cipher_text = data[:_VECTOR], data[_VECTOR + 1 :]
    # CFB: each block is XORed with the encrypted previous block. (The library's own CFB is about to be moved.)
    before = (vector + cipher_text)[: len(cipher_text) + -len(cipher_text) % _VECTOR]
    encryptor = Cipher(algorithms.AES(_key(environ)), modes.ECB()).encryptor()
    stream = encryptor.update(before) + encryptor.finalize()
    try:
        plain = bytes(one ^ other for one, other in zip(cipher_text, stream, strict=False)).decode("utf-8")
    except UnicodeDecodeError:
        plain = "\0"
    if not plain.isprintable():
        raise CannotDecrypt(f"it was encrypted with another key; name the file of that key in {SECRET_KEY_VARIABLE}")
    return plain


def _key(environ: Mapping[str, str]) -> bytes:
    path = environ.get(SECRET_KEY_VARIABLE)
    if not path:
        return _PUBLISHED_KEY
    try:
        key = bytes.fromhex(Path(path).read_text(encoding="ascii").strip())
    except OSError as error:
        raise CannotDecrypt(
            f"{path}, which {SECRET_KEY_VARIABLE} names, cannot be read ({type(error).__name__})"
        ) from None
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise CannotDecrypt(
            f"{path}, which {SECRET_KEY_VARIABLE} names, is no key of {2 * _KEY_BYTES} hexadecimal digits"
        )
    return key
