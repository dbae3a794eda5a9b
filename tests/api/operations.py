"""The server against its own description: schemathesis tries each operation of openapi.json.

For each: the examples, every bound from both sides, each wrong kind of value once, then EXAMPLES made-up requests, good
and bad, all from a fixed seed. What is checked of each answer: that its status is described; its media type, headers and
body are as described, with no field besides; that what is wrong is refused and what is right is not; that nothing is
answered without the key; that other methods get 405. A 5xx is wrong unless it is described and means what it says.

Run by `make check-api`; by hand: SANDGLASS_BUILD=build build/venv/bin/pytest tests/api/operations.py [-k NAME]
"""

import json

import pytest
import schemathesis
from daemon import PATIENCE, build_folder
from schemathesis.core.failures import Failure
from schemathesis.specs.openapi import checks

EXAMPLES = 15
SEED = 20260601
# 400s that tell of the state of things, or of a language of its own, not of the form of the request.
OF_STATE = {"file.is_directory", "file.not_directory", "file.special", "file.loop", "language.unknown", "template.dockerfile"}
REFUSALS = ["400", "401", "403", "404", "405", "409", "410", "413", "415", "429", "501", "502", "503", "507"]
HONEST = {501, 502, 503, 504, 507}


def closed(schema):
    """The same, but refusing fields that are not described: an answer may have none of these."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    shut = {name: closed(value) for name, value in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        shut.setdefault("additionalProperties", False)
    return shut


def load():
    document = json.loads((build_folder() / "src/api/openapi/openapi.json").read_text())
    document["components"]["schemas"] = closed(document["components"]["schemas"])
    config = schemathesis.Config.from_dict({
        "seed": SEED,
        # "ANY" goes for methods too that OpenAPI has no word for, such as QUERY.
        "phases": {"coverage": {"unexpected-methods": ["get", "put", "post", "delete", "options", "patch", "trace"]}},
        # What is no request for a WebSocket is refused as that, before its query is read.
        "checks": {"negative_data_rejection": {"expected-statuses": [*REFUSALS, "426"]}},
        "generation": {
            "max-examples": EXAMPLES, "no-shrink": True, "deterministic": True, "database": "none", "with-security-parameters": False,
        },
    })  # fmt: skip
    return schemathesis.openapi.from_dict(document, config=config)


schema = load()


class Wrong(Failure):
    """An answer that it should not have given."""

    def __init__(self, *, operation: str, message: str) -> None:
        super().__init__(operation=operation, title="Wrong answer", message=message)


def no_fault(ctx, answer, case) -> None:
    if answer.status_code < 500:
        return
    described = case.operation.definition.raw["responses"]
    if answer.status_code not in HONEST or str(answer.status_code) not in described:
        raise Wrong(operation=case.operation.label, message=f"{answer.status_code}: {answer.text[:300]}")


def right_is_accepted(ctx, answer, case) -> None:
    """A well-formed request may fail for what is there, not for its form."""
    if not case.meta or case.meta.generation.mode.is_negative or answer.status_code not in (400, 405, 413, 415):
        return
    if checks.is_unexpected_http_status_case(case) or answer.json().get("code") in OF_STATE:
        return
    raise Wrong(operation=case.operation.label, message=f"refused, though well formed: {answer.text[:300]}")


CHECKS = [
    no_fault, right_is_accepted, checks.status_code_conformance, checks.content_type_conformance, checks.response_headers_conformance,
    checks.response_schema_conformance, checks.negative_data_rejection, checks.missing_required_header, checks.unsupported_method,
    checks.allow_header_conformance, checks.ignored_auth,
]  # fmt: skip


@pytest.mark.limit(300)
@schema.parametrize()
def test_operation(case, world):
    world.aim(case)
    answer = case.call(base_url=world.daemon.url, headers={"Authorization": f"Bearer {world.daemon.key}"}, timeout=60 * PATIENCE)
    try:
        case.validate_response(answer, checks=CHECKS)
    finally:
        world.tidy(case, answer)


def test_what_is_served_is_what_was_built(world):
    served = world.send("GET", "/openapi.json")
    assert served == json.loads((build_folder() / "src/api/openapi/openapi.json").read_text())
