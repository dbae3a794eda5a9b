#!/usr/bin/env python3
"""Makes openapi.json from the table of routes, the table of errors and the descriptions beside this file.

    merge.py ROUTES_C ERROR_TABLE_H VERSION OUTPUT DESCRIPTION.toml ...

What an operation is called, which methods and paths there are, who needs a key: that is read from `routes[]` of
routes.c. What each code of an error means and which status it has: from error_table.h. The rest is in the .toml files,
one table an operation, called "METHOD pattern" as in routes.c ("ANY pattern" where any method goes). A route without
such a table, a table without a route, and a name that nothing defines stop the build and say what to write where.

A table may have:
    id, summary, text    how the operation is called, in a word, a line and as much as it takes
    names                what the "{}" and "*" of the pattern stand for, in order: parameters of api.toml
    query, headers       further parameters of api.toml
    body                 a schema; body_required; body_type, or body_types, if it is no JSON
    answers              by status: text, and schema or types (by media type) where there is a body
    errors               codes, or "@group" of api.toml; what every route may answer is added by itself
    passes               what a server in the sandbox answers is passed on: any status, any type
Schemas are JSON Schema; "ref" is short for a reference to another one, "closed" for "no further properties", and
"extends" takes over the properties of others.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

ROUTE = re.compile(r'\{\s*"([A-Z]*)",\s*((?:BOX|"[^"]*")(?:\s*"[^"]*")?),\s*(\w+),\s*([^}]*?)\s*\}')
ERROR = re.compile(r'E\((\w+),\s*"([^"]*)",\s*(\d+),\s*"((?:[^"\\]|\\.)*)"\)')
ANY = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
REQUEST_ID = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}


class Mistake(Exception):
    """The descriptions and the program do not fit."""


# ---- the program's tables ----


class Route:
    def __init__(self, method: str, pattern: str, handler: str, flags: str) -> None:
        self.method, self.pattern, self.handler = method, pattern, handler
        self.flags = {flag.strip().removeprefix("ROUTE_") for flag in flags.split("|")}

    @property
    def key(self) -> str:
        return f"{self.method or 'ANY'} {self.pattern}"

    @property
    def methods(self) -> tuple[str, ...]:
        return (self.method.lower(),) if self.method else ANY

    @property
    def is_built(self) -> bool:
        return self.handler != "not_built"


def read_routes(path: str) -> list[Route]:
    text = Path(path).read_text()
    box = re.search(r'#define BOX "([^"]*)"', text)
    table = re.search(r"static const struct route routes\[\] = \{(.*?)\n\};", text, re.DOTALL)
    if not box or not table:
        raise Mistake(f"{path} has no table of routes that this script can read")
    rows = ROUTE.findall(table[1])
    if len(rows) != len(re.findall(r"^\t\{", table[1], re.MULTILINE)):
        raise Mistake(f"{path} has rows in routes[] that this script cannot read")
    return [Route(method, pattern_of(pattern, box[1]), handler, flags) for method, pattern, handler, flags in rows]


def pattern_of(text: str, box: str) -> str:
    return "".join(box if part == "BOX" else part.strip('"') for part in re.findall(r'BOX|"[^"]*"', text))


def read_errors(path: str) -> dict[str, tuple[int, str]]:
    rows = ERROR.findall(Path(path).read_text().replace("\\\n", " "))
    return {word: (int(status), meaning) for name, word, status, meaning in rows if name != "NONE"}


def read_descriptions(paths: list[str]) -> dict:
    """All files as one; an operation keeps the tag of its file."""
    whole: dict = {"operations": {}, "tags": []}
    for path in paths:
        part = tomllib.loads(Path(path).read_text())
        if "tag" in part:
            whole["tags"].append({"name": part["tag"], "description": part.get("about", "")})
        for name, value in part.items():
            if " /" in name:
                whole["operations"][name] = {**value, "tag": part["tag"], "file": Path(path).name}
            elif isinstance(value, dict):
                whole.setdefault(name, {}).update(value)
    return whole


# ---- schemas ----


def expand(schema, schemas: dict):
    """The short forms spelled out."""
    if isinstance(schema, list):
        return [expand(item, schemas) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = extend(dict(schema), schemas)
    if schema.pop("closed", False):
        schema["additionalProperties"] = False
    if isinstance(schema.get("ref"), str):
        schema["$ref"] = reference(schema.pop("ref"), schemas)
    return {name: value if name in ("example", "default", "const") else expand(value, schemas) for name, value in schema.items()}


def reference(name: str, schemas: dict) -> str:
    if name not in schemas:
        raise Mistake(f"no schema is called '{name}'")
    return f"#/components/schemas/{name}"


def extend(schema: dict, schemas: dict) -> dict:
    for name in schema.pop("extends", []):
        reference(name, schemas)
        base = extend(dict(schemas[name]), schemas)
        schema["properties"] = {**base.get("properties", {}), **schema.get("properties", {})}
        schema["required"] = list(dict.fromkeys(base.get("required", []) + schema.get("required", [])))
        schema.setdefault("type", base.get("type", "object"))
    return schema


# ---- answers ----


def codes_of(route: Route, about: dict, groups: dict) -> list[str]:
    names = ["@every", *about.get("errors", [])]
    names += [] if "OPEN" in route.flags else ["@key"]
    names += [] if "RAW" in route.flags else ["@json"]
    names += ["@body"] if "BARE" in route.flags or "body" in about else []
    names += ["sandbox.not_found"] if "{id}" in route.pattern else []
    codes: list[str] = []
    for name in names:
        codes += groups[name[1:]] if name.startswith("@") else [name]
    return list(dict.fromkeys(codes))


def error_answers(codes: list[str], errors: dict, passes: bool, components: dict) -> dict:
    """References to one component for each set of codes that share a status."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        if code not in errors:
            raise Mistake(f"no error has the code '{code}'")
        by_status.setdefault(errors[code][0], []).append(code)
    answers = {}
    for status, words in sorted(by_status.items()):
        words.sort()
        name = f"{status}.{'any.' if passes else ''}" + "-".join(words)
        components.setdefault(name, error_component(status, words, errors, passes))
        answers[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return answers


def add_head_too_large(answers: dict, components: dict) -> None:
    """The one status that shares its code with another."""
    body = {"schema": {"$ref": "#/components/schemas/Error"}}
    text = "`request.too_large`: the head is larger than 32 KiB"
    components.setdefault("431.request.too_large", {"description": text, "headers": REQUEST_ID, "content": {"application/json": body}})
    answers["431"] = {"$ref": "#/components/responses/431.request.too_large"}


def error_component(status: int, words: list[str], errors: dict, passes: bool) -> dict:
    named = {"properties": {"code": {"enum": words}}}
    content: dict = {"application/json": {"schema": {"allOf": [{"$ref": "#/components/schemas/Error"}, named]}}}
    headers = dict(REQUEST_ID)
    if passes:
        content = {"*/*": {}}
    elif status in (429, 503):
        headers["Retry-After"] = {"$ref": "#/components/headers/Retry-After"}
    if status == 401 and not passes:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWW-Authenticate"}
    text = "\n".join(f"`{word}`: {errors[word][1]}" for word in words)
    return {"description": text, "headers": headers, "content": content}


def answer_of(about: dict, schemas: dict) -> dict:
    answer: dict = {"description": about["text"], "headers": REQUEST_ID}
    types = about.get("types", {"application/json": about["schema"]} if "schema" in about else {})
    for media, schema in types.items():
        shown = {"$ref": reference(schema, schemas)} if isinstance(schema, str) else expand(schema, schemas)
        answer.setdefault("content", {})[media] = {"schema": shown} if shown else {}
    return answer


# ---- operations ----


def path_of(route: Route, names: list[str]) -> tuple[str, list[str]]:
    """The path as OpenAPI writes it, and the parameters it has."""
    left, parts, found = list(names), [], []
    for part in route.pattern.split("/"):
        name = {"{id}": "id", "{sid}": "sid"}.get(part)
        if part in ("{}", "*"):
            if not left:
                raise Mistake(f"'{route.key}' has more places than 'names'")
            name = left.pop(0)
        parts.append(f"{{{name}}}" if name else part)
        found += [name] if name else []
    if left:
        raise Mistake(f"'{route.key}' has no place for {left}")
    return "/".join(parts), found


def parameters_of(names: list[str], parameters: dict) -> list[dict]:
    for name in names:
        if name not in parameters:
            raise Mistake(f"no parameter is called '{name}'")
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


# Makers of clients leave out an operation whose body has no schema.
BARE_BODIES = {"application/octet-stream": {"type": "string", "format": "binary"}}


def body_of(about: dict, schemas: dict) -> dict:
    types = about.get("body_types", [about.get("body_type", "application/json")])
    schema = {"$ref": reference(about["body"], schemas)} if "body" in about else {}
    content = {media: schema or BARE_BODIES.get(media) for media in types}
    return {"required": about.get("body_required", False), "content": {media: {"schema": shown} if shown else {} for media, shown in content.items()}}


def security_of(route: Route) -> list[dict]:
    if "OPEN" in route.flags:
        return []
    ways: list[dict] = [{"key": []}]
    ways += [{"access_token": []}] if route.flags & {"QUERY_KEY", "UPGRADE"} else []
    return ways + ([{}] if "METRICS" in route.flags else [])


def operation_of(route: Route, method: str, about: dict, whole: dict, errors: dict, responses: dict) -> dict:
    schemas = whole["schemas"]
    about = {"body": "Empty", **about} if "BARE" in route.flags else about
    path, found = path_of(route, about.get("names", []))
    asked = [*found, *about.get("query", []), *about.get("headers", [])]
    answers = {status: answer_of(value, schemas) for status, value in about.get("answers", {}).items()}
    if about.get("passes"):
        answers["default"] = {"description": "what the server inside answers", "content": {"*/*": {}}}
    answers |= {
        status: answer
        for status, answer in error_answers(codes_of(route, about, whole["groups"]), errors, bool(about.get("passes")), responses).items()
        if status not in answers
    }
    add_head_too_large(answers, responses)
    operation = {"operationId": about["id"] + (f"_{method}" if not route.method else ""), "tags": [about["tag"]]}
    operation |= {"summary": about["summary"], "description": about.get("text", "").strip()}
    operation |= {"parameters": parameters_of(asked, whole["parameters"]), "security": security_of(route)}
    if "body" in about or "body_type" in about and method not in ("get", "head", "options", "trace"):
        operation["requestBody"] = body_of(about, schemas)
    if not route.is_built:
        operation["x-not-built"] = True
    return operation | {"responses": dict(sorted(answers.items()))}


def check_complete(routes: list[Route], operations: dict) -> None:
    known = {route.key for route in routes}
    missing = [key for key in known if key not in operations]
    extra = [f"{key} ({about['file']})" for key, about in operations.items() if key not in known]
    if missing or extra:
        raise Mistake(
            "".join(f"\n  the route '{key}' has no description: add a table [\"{key}\"] to a file of src/api/openapi" for key in missing)
            + "".join(f"\n  no route of routes.c is described by {key}" for key in extra)
        )


def merge(routes: list[Route], errors: dict, whole: dict, version: str) -> dict:
    check_complete(routes, whole["operations"])
    paths: dict = {}
    responses: dict = {}
    for route in routes:
        about = whole["operations"][route.key]
        path, _ = path_of(route, about.get("names", []))
        for method in route.methods:
            paths.setdefault(path, {})[method] = operation_of(route, method, about, whole, errors, responses)
    schemas = {name: expand(schema, whole["schemas"]) for name, schema in whole["schemas"].items()}
    schemas["Error"]["properties"]["code"]["enum"] = sorted(errors)
    parameters = {name: {"name": name, **expand(value, whole["schemas"])} for name, value in whole["parameters"].items()}
    return {
        "openapi": "3.1.0",
        "info": {**whole["info"], "version": version},
        "servers": [{"url": "/"}],
        "tags": whole["tags"],
        "paths": paths,
        "components": {
            "schemas": schemas, "parameters": parameters, "headers": whole["headers"],
            "responses": dict(sorted(responses.items())), "securitySchemes": whole["security"],
        },
    }  # fmt: skip


def main(arguments: list[str]) -> int:
    routes_c, error_table, version, output, *descriptions = arguments
    try:
        whole = read_descriptions(descriptions)
        document = merge(read_routes(routes_c), read_errors(error_table), whole, version)
    except (Mistake, KeyError, tomllib.TOMLDecodeError) as problem:
        print(f"openapi: {problem if not isinstance(problem, KeyError) else f'{problem} is missing'}", file=sys.stderr)
        return 1
    Path(output).write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
