"""Tables of keys in docs/accelerator-yaml.md against the schema that reads the files."""

from __future__ import annotations

from bfpga.accelerator.sections import Section, json_rules, kind_words, resolved


def missing_rows(model: type[Section], text: str) -> list[str]:
    """Beginnings of rows that ``text`` lacks: every key, with its bounds or choices; and every key's meaning."""
    schema = json_rules(model)
    wanted = []
    for key, rule in schema["properties"].items():
        options = [option for option in rule.get("anyOf", [rule]) if option.get("type") != "null"]
        bound = [option for option in options if option.get("type") in ("integer", "number") or "enum" in option]
        values = " or ".join(kind_words(schema, resolved(schema, option)) for option in bound)
        wanted += [f"| `{key}` | {values}", rule.get("description") or "?"]
    return [row for row in wanted if row not in text]
