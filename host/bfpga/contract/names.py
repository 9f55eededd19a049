"""Names and digests that files give and that are used in C++, Verilog, Tcl and paths.

Only the standard library is imported: a board loads this module too.
"""

from __future__ import annotations

import re

from bfpga.errors import ConfigurationError
from bfpga.formats.checked_fields import shown

#: A name of an accelerator, a board or a kernel.
NAME_PATTERN = "[a-z][a-z0-9_]*"
#: Characters of the longest name: those of a file and what a toolkit appends.
LONGEST_NAME = 64
#: Digits of a digest that distinguish kernels, the first of its SHA-256; files hold all.
SHORT_DIGITS, DIGEST_DIGITS = 8, 64


def check_name(value: object, where: str) -> str:
    """``value`` as a name; ConfigurationError that begins with ``where`` if it is none."""
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not re.fullmatch(NAME_PATTERN, value):
        raise ConfigurationError(
            f"{where} is {shown(value)}; must be a name of lower case letters, digits and underscores that starts with "
            f"a letter, {LONGEST_NAME} characters at most"
        )
    return value


def check_digest(value: object, where: str, least: int = DIGEST_DIGITS) -> str:
    """``value`` as the ``least`` first digits of a SHA-256 or more; ConfigurationError that begins with ``where``."""
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{least},{DIGEST_DIGITS}}}", value):
        count = DIGEST_DIGITS if least == DIGEST_DIGITS else f"{least} to {DIGEST_DIGITS}"
        raise ConfigurationError(f"{where} is {shown(value)}; must be {count} hexadecimal digits of a SHA-256")
    return value
