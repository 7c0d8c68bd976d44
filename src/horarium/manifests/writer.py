"""A manifest as a YAML file."""

from __future__ import annotations

from collections.abc import Sequence

from horarium.manifests import manifest, yaml_text


def write(written: manifest.Manifest, heading: Sequence[str] = ()) -> str:
    """The text of the file; the lines of `heading` come first, as comments. The same manifest gives the same text."""
    comments = "".join(f"# {line}".rstrip() + "\n" for line in heading)
    return comments + yaml_text.dump(written.as_value())
