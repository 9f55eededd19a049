"""Strict sections of a YAML file, and every wrong key of one in plain words with its line."""

from __future__ import annotations

import difflib
import functools
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from bfpga.accelerator.yaml_reader import Document, KeyPath


class Section(BaseModel):
    """Every section is strict: no unknown keys, no conversion of types."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def validate(document: Document, model: type[Section], what: str) -> Any:
    """Instance of ``model`` from ``document``; ConfigurationError lists every wrong key with its line."""
    if not isinstance(document.value, dict):
        document.refuse((), f"the file holds {kind_of(document.value)}; it must hold keys and values")
        document.raise_problems(what)
    instance = None
    try:
        instance = model.model_validate(document.value)
    except ValidationError as error:
        add_problems(document, json_rules(model), error)
    document.raise_problems(what)
    return instance


@functools.cache
def json_rules(model: type[Section]) -> dict[str, Any]:
    """The JSON schema of a model, by which errors are reported; not to be changed."""
    return model.model_json_schema()


def add_problems(document: Document, schema: dict[str, Any], error: ValidationError) -> None:
    """Translate pydantic's errors; one problem for every key path."""
    for item in error.errors(include_url=False):
        path, rule = locate(schema, item["loc"])
        if item["type"].startswith("union_tag"):
            add_wrong_kind(document, path, rule)
            continue
        if item["type"] == "extra_forbidden":
            path, rule = locate(schema, item["loc"][:-1])
            text = unknown_key(str(item["loc"][-1]), list(section_rule(schema, rule)["properties"]))
            path = (*path, item["loc"][-1])
        elif item["type"] == "missing":
            text = f"missing; must be {expectation(schema, rule)}"
        else:
            text = f"is {shown(value_at(document.value, path))}; must be {expectation(schema, rule)}"
        document.refuse(path, text)


def add_wrong_kind(document: Document, path: KeyPath, rule: dict[str, Any]) -> None:
    """A section whose key ``kind`` is missing or names none of the kinds there are."""
    kinds, section = list(rule["discriminator"]["mapping"]), value_at(document.value, path)
    wanted = "must be one of " + ", ".join(kinds)
    if "kind" not in section:
        for key in difflib.get_close_matches("kind", map(str, section), 1, 0.6):
            document.refuse((*path, key), unknown_key(key, ["kind"]))
        document.refuse((*path, "kind"), f"missing; {wanted}")
        return
    near = difflib.get_close_matches(str(section["kind"]), kinds, 1, 0.6)
    document.refuse(
        (*path, "kind"),
        f"is {shown(section['kind'])}; {wanted}" + (f"; did you mean `{near[0]}`?" if near else ""),
    )


def locate(schema: dict[str, Any], location: KeyPath) -> tuple[KeyPath, dict[str, Any]]:
    """Longest part of ``location`` that the schema has, and its rule (pydantic appends the member of a union)."""
    rule, path = schema, ()  # type: tuple[dict[str, Any], KeyPath]
    for part in location:
        kinds = rule.get("discriminator", {}).get("mapping", {})
        if part in kinds:  # not a key: pydantic names the kind of the section
            rule = resolved(schema, {"$ref": kinds[part]})
            continue
        section = section_rule(schema, rule)
        others = section.get("additionalProperties")
        below = section.get("items") if isinstance(part, int) else section.get("properties", {}).get(part, others)
        if not isinstance(below, dict):
            break
        rule, path = {**resolved(schema, below), **{k: v for k, v in below.items() if k != "$ref"}}, (*path, part)
    return path, rule


def section_rule(schema: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """The rule itself, or that of the section where a section may also be left empty."""
    sections = [option for option in rule.get("anyOf", ()) if "$ref" in option]
    return resolved(schema, sections[0]) if len(sections) == 1 else rule


def resolved(schema: dict[str, Any], rule: dict[str, Any]) -> dict[str, Any]:
    """The rule that a reference names, or the one section of a value that may be left empty."""
    sections = [option["$ref"] for option in rule.get("anyOf", ()) if "$ref" in option]
    reference = rule.get("$ref", sections[0] if len(sections) == 1 else "")
    return dict(schema["$defs"][reference.rsplit("/", 1)[-1]]) if reference else rule


def expectation(schema: dict[str, Any], rule: dict[str, Any]) -> str:
    """What a value must be, in words, from its rule in the JSON schema."""
    text = kind_words(schema, resolved(schema, rule))
    description = rule.get("description")
    return f"{text} ({description})" if description else text


def kind_words(schema: dict[str, Any], rule: dict[str, Any]) -> str:
    """`a whole number 1..128`, `one of a, b`, `true or false`, ..."""
    if "anyOf" in rule:
        return " or ".join(kind_words(schema, option) for option in rule["anyOf"])
    if "const" in rule:
        return str(rule["const"])
    if "enum" in rule:
        return "one of " + ", ".join(map(str, rule["enum"]))
    kind = rule.get("type")
    if kind == "array":
        return "a list" + list_length(rule) + " of " + kind_words(schema, resolved(schema, rule["items"]))
    if kind == "string" and "pattern" in rule:
        return "a name of lower case letters, digits and underscores that starts with a letter"
    words = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "string": "text",
        "null": "nothing",
    }
    return words.get(str(kind), "a section of keys") + number_range(rule)


def list_length(rule: dict[str, Any]) -> str:
    low, high = rule.get("minItems", 0), rule.get("maxItems")
    if low == high:
        return {1: " with one element", 2: " with two elements"}.get(low, "")
    return f" with {low} to {high} elements" if high else ""


def number_range(rule: dict[str, Any]) -> str:
    if "maxLength" in rule:
        return f" of at most {rule['maxLength']} characters"
    if "minimum" in rule:
        return f" {rule['minimum']}..{rule['maximum']}"
    if "exclusiveMinimum" in rule:
        return f" above {rule['exclusiveMinimum']:g} and up to {rule['maximum']:g}"
    return ""


def unknown_key(key: str, known: list[str]) -> str:
    """`unknown key; did you mean ...`, or the list of the known keys."""
    near = difflib.get_close_matches(key, known, 1, 0.6)
    if near:
        return f"unknown key; did you mean `{near[0]}`?"
    return f"unknown key; the keys here are {', '.join(known)}"


def value_at(value: Any, path: KeyPath) -> Any:
    for part in path:
        value = value[part]
    return value


def shown(value: Any) -> str:
    """A value as it is in the file, shortened."""
    if isinstance(value, (dict, list)) or value is None:
        return kind_of(value)
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def kind_of(value: Any) -> str:
    if value is None:
        return "empty"
    names = {dict: "a section of keys", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number")
