"""A supervisor with a plan of fakes: `python -m tests.integration.dev.fake_supervisor PLAN`."""

import os
import sys
from pathlib import Path

from ops.dev.paths import StackPaths
from ops.dev.plan import Plan, ServiceSpec
from ops.dev.status import Kind
from ops.dev.supervisor import supervise

MODULE = "tests.integration.dev.fake_service"


def service(name: str, *behaviour: str, kind: Kind = Kind.SERVICE) -> ServiceSpec:
    return ServiceSpec(name, (MODULE, name, *behaviour), kind)


PLANS = {
    "two": Plan(
        frozenset(), service("simulator", "simulator", kind=Kind.SIMULATOR), (), (service("a"), service("b", "parent"))
    ),
    "one-dies": Plan(frozenset(), None, (), (service("a"), service("b", "dies"))),
    "one-silent": Plan(frozenset(), None, (), (service("a"), service("b", "silent"))),
}

if __name__ == "__main__":
    sys.exit(supervise(StackPaths(Path(os.environ["ULAK_STATE_DIR"])), PLANS[sys.argv[1]], os.environ))
