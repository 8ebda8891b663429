"""Parts of the standard library that it imports only when they are first used.

In the sandbox that is too late: a component has the modules that were imported when it was built.
"""

import _strptime  # type: ignore[import-not-found]  # noqa: F401
import encodings.ascii
import encodings.cp1252
import encodings.latin_1
import encodings.utf_8_sig
import encodings.utf_16
import encodings.utf_16_le  # noqa: F401
