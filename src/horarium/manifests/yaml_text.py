"""YAML as manifests use it: the core schema of YAML 1.2, where `on`, `no` and `12:30` are texts.

PyYAML reads YAML 1.1, in which `{job: a, on: succeeded}` has the key True, a time of day is a number of base 60 and
`run_at: 2026-12-01T02:00:00Z` is no text. Here only null, true, false and decimal numbers are anything but text.
A key that stands twice is refused.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

_IMPLICIT = (
    ("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"[-+]?[0-9]+$"), list("-+0123456789")),
    (
        "tag:yaml.org,2002:float",
        re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
        list("-+.0123456789"),
    ),
    ("tag:yaml.org,2002:merge", re.compile(r"<<$"), ["<"]),
)

_OTHER_LINE_ENDS = re.compile("[\r\x85\u2028\u2029]")
# A shell line that is folded over several lines is hard to read and easy to break.
_NEVER_FOLDED = 1_000_000


class _Loader(yaml.SafeLoader):
    """A safe loader with the resolvers of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's name and place for them

    def construct_int(self, node: yaml.ScalarNode) -> int:
        return int(self.construct_scalar(node))  # 1.1 would read 010 as eight

    def construct_checked_mapping(self, node: yaml.MappingNode) -> dict[Hashable, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands here twice", key.start_mark)
            seen.add(str(key.value))
        self.flatten_mapping(node)
        return super().construct_mapping(node, deep=True)


for _tag, _pattern, _first in _IMPLICIT:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_int)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_checked_mapping)


def load(text: str) -> Any:
    """The value of one YAML document. ValueError says in which line it is broken."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{error.problem or error.context}") from None
    except yaml.YAMLError as error:  # characters that no YAML may hold
        raise ValueError(str(error)) from None


def dump(value: object) -> str:
    """A value as YAML that both versions of the language read alike; members keep their order."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NEVER_FOLDED)
    return text


class _Dumper(yaml.SafeDumper):
    """Lists are indented under their key, as people write them, and nothing is written as a reference."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text on several lines as a block; what PyYAML takes for a line end in other styles is escaped."""
    style = '"' if _OTHER_LINE_ENDS.search(text) else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
