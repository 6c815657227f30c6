"""Write the documents that are made from the code: settings, metrics, OpenAPI. `make docs` runs it, a test compares.

python docs/generate.py [folder]
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.metrics import MetricWrapperBase
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

import ops
import services
import shared
from shared.runtime import metrics


def settings_models() -> list[type[BaseSettings]]:
    """Every settings model, found where style puts them: in modules named `settings`."""
    found: dict[str, type[BaseSettings]] = {}
    for package in (services, shared, ops):
        for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module_info.name.rpartition(".")[2] != "settings":
                continue
            module = importlib.import_module(module_info.name)
            for _, value in inspect.getmembers(module, inspect.isclass):
                if not issubclass(value, BaseSettings) or value.__module__ != module.__name__:
                    continue
                if value.model_config.get("env_prefix"):  # without: a base of others
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return [found[name] for name in sorted(found)]


def settings_table(models: Iterable[type[BaseSettings]]) -> str:
    lines = [
        "# Settings",
        "",
        "Read from the environment at start, by each service's composition root only. A wrong one ends the start with",
        "its name and the remedy. Made from the code by `make docs`.",
        "",
        "`ULAK_LOG_LEVEL` (default `INFO`) sets every service's log level.",
    ]
    for model in models:
        doc = inspect.getdoc(model) or ""
        rows = [_setting_row(model, name, field) for name, field in model.model_fields.items()]
        if rows:
            lines += ["", f"## {model.__module__}", "", doc.split("\n\n", maxsplit=1)[0].replace("\n", " "), ""]
            lines += ["| setting | default | meaning |", "|---|---|---|", *rows]
    return "\n".join(lines) + "\n"


def _setting_row(model: type[BaseSettings], name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    variable = alias if isinstance(alias, str) else f"{model.model_config.get('env_prefix', '')}{name}"
    if field.default is PydanticUndefined and field.default_factory is None:
        default = "required"
    else:
        default = _shown(field.get_default(call_default_factory=True, validated_data={}))
    meaning = " ".join((field.description or "").split())
    return f"| `{variable.upper()}` | {default} | {meaning} |"


def _shown(value: Any) -> str:
    if value is None or value in ("", (), frozenset()):
        return "none"
    return f"`{value}`"


def metrics_table() -> str:
    lines = [
        "# Metrics",
        "",
        "Every service answers `/metrics` on its health port. Made from the code by `make docs`.",
        "",
    ]
    lines += ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for _, metric in inspect.getmembers(metrics, lambda value: isinstance(value, MetricWrapperBase)):
        (family,) = metric.describe()
        total = "_total" if family.type == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in metric._labelnames)  # noqa: SLF001  no public way to read them
        lines.append(f"| `{family.name}{total}` | {family.type} | {labels or 'none'} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def openapi_documents() -> dict[str, bytes]:
    """OpenAPI of every HTTP surface, sorted, so that a change of contract shows in a diff."""
    from services.callbacks.openapi import document as callbacks
    from services.ingest.openapi import document as ingest
    from services.me.openapi import document as me

    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
    return {
        "openapi/ingest.json": orjson.dumps(ingest(), option=options) + b"\n",
        "openapi/me.json": orjson.dumps(me(), option=options) + b"\n",
        "openapi/callbacks.json": orjson.dumps(callbacks(), option=options) + b"\n",
    }


def documents() -> dict[str, bytes]:
    """Path below docs/ -> content."""
    return {
        "settings.md": settings_table(settings_models()).encode(),
        "metrics.md": metrics_table().encode(),
        **openapi_documents(),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for path, content in documents().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        print(target)
