# SPDX-License-Identifier: Apache-2.0
"""Objects that a schema allows, for property tests."""

from typing import Any

from hypothesis import strategies as st

from tandem_operator.api.schema import Schema


def objects_of(schema: Schema) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one for each kind of schema
    """JSON values that the schema allows (rules aside), small enough to be read when a test fails."""
    match schema:
        case {"enum": values}:
            return st.sampled_from(values)
        case {"x-kubernetes-int-or-string": True}:
            return st.integers(0, 999) | st.sampled_from(["8", "500m", "1.5", "64Gi"])
        case {"x-kubernetes-preserve-unknown-fields": True, "properties": _}:
            return objects_of({**schema, "x-kubernetes-preserve-unknown-fields": False})
        case {"x-kubernetes-preserve-unknown-fields": True}:
            return st.sampled_from([{}, {"metadata": {"labels": {"team": "a"}}}])
        case {"type": "object", "additionalProperties": values}:
            return st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), objects_of(values), max_size=2)
        case {"type": "object"}:
            properties = {name: objects_of(each) for name, each in schema.get("properties", {}).items()}
            required = set(schema.get("required", ()))
            return st.fixed_dictionaries(
                {name: each for name, each in properties.items() if name in required},
                optional={name: each for name, each in properties.items() if name not in required},
            )
        case {"type": "array", "items": items}:
            keys = schema.get("x-kubernetes-list-map-keys", ())
            unique_by = (lambda item: tuple(item[key] for key in keys)) if keys else None
            return st.lists(objects_of(items), max_size=2, unique_by=unique_by)
        case {"type": "integer"}:
            return st.integers(schema.get("minimum", 0), schema.get("maximum", 2**31 - 1))
        case {"type": "boolean"}:
            return st.booleans()
        case {"type": "string", "format": "date-time"}:
            return st.sampled_from(["2026-11-29T08:00:00Z"])
        case {"type": "string", "pattern": pattern}:
            return st.from_regex(pattern, fullmatch=True).filter(lambda text: len(text) <= 32)
        case {"type": "string"}:
            return st.text("abc-", min_size=schema.get("minLength", 0), max_size=8)
    raise AssertionError(f"no strategy for {schema}")
