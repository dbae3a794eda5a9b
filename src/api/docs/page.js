// Shows /openapi.json as a page. All text goes in as text, never as markup, so that nothing in the description can
// become part of the page.
"use strict";

const make = (name, options = {}, ...children) => {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(options)) {
		element[key] = value;
	}
	element.append(...children.filter((child) => child !== null));
	return element;
};

// `code` between backticks; all else as it is.
const prose = (text) => {
	const parts = (text || "").split(/`([^`]*)`/);
	return parts.map((part, i) => (i % 2 ? make("code", {}, part) : part));
};

const paragraph = (text) => (text ? make("p", { className: "text" }, ...prose(text)) : null);

// ---- schemas ----

let description;

const resolve = (item) => {
	let found = item;
	while (found && found.$ref) {
		found = found.$ref.slice(2).split("/").reduce((at, key) => at[key], description);
	}
	return found;
};

const nameOf = (schema) => (schema.$ref ? schema.$ref.split("/").pop() : "");

const bounds = (schema) => {
	const said = [];
	const tell = (key, text) => schema[key] !== undefined && said.push(`${text} ${JSON.stringify(schema[key])}`);
	tell("const", "is");
	tell("minimum", "at least");
	tell("exclusiveMinimum", "above");
	tell("maximum", "at most");
	tell("minLength", "length at least");
	tell("maxLength", "length at most");
	tell("maxItems", "items at most");
	tell("maxProperties", "fields at most");
	tell("pattern", "matches");
	tell("default", "default");
	if (schema.enum) {
		said.push(`one of ${schema.enum.map((value) => JSON.stringify(value)).join(", ")}`);
	}
	return said.join("; ");
};

const typeOf = (schema) => {
	const plain = resolve(schema);
	if (plain.anyOf) {
		return plain.anyOf.map(typeOf).join(" or ");
	}
	const type = [].concat(plain.type || (plain.enum || plain.const !== undefined ? "" : "any")).join(" or ");
	return plain.type === "array" && plain.items ? `array of ${nameOf(plain.items) || typeOf(plain.items)}` : type;
};

const rowOf = (name, schema, isRequired, depth) => {
	const plain = resolve(schema);
	const facts = [typeOf(schema), plain.format, isRequired ? "required" : "", bounds(plain)].filter(Boolean).join("; ");
	const inner = plain.type === "array" && plain.items ? resolve(plain.items) : plain;
	return make("tr", {},
		make("td", {}, make("code", {}, name)),
		make("td", {}, make("span", { className: "dim" }, facts), " ", ...prose(schema.description || plain.description),
			inner.properties && depth < 4 ? fieldsOf(inner, depth + 1) : null));
};

const fieldsOf = (schema, depth = 0) => {
	const required = schema.required || [];
	const rows = Object.entries(schema.properties).map(([name, field]) => rowOf(name, field, required.includes(name), depth));
	return make("table", {}, make("tbody", {}, ...rows));
};

const schemaOf = (schema) => {
	const plain = resolve(schema);
	const inner = plain.type === "array" && plain.items ? resolve(plain.items) : plain;
	const facts = [typeOf(schema), bounds(plain)].filter(Boolean).join("; ");
	return make("div", {}, make("span", { className: "dim" }, facts), " ", ...prose(plain.description),
		inner.properties ? fieldsOf(inner) : null);
};

// ---- operations ----

const contentOf = (content) =>
	Object.entries(content || {}).map(([type, media]) =>
		make("details", {}, make("summary", {}, `${type}${media.schema ? ` ${nameOf(media.schema)}` : ""}`),
			media.schema && !media.schema.allOf ? schemaOf(media.schema) : null,
			media.schema && media.schema.allOf ? schemaOf(media.schema.allOf[0]) : null));

const answersOf = (responses) => {
	const rows = Object.entries(responses).map(([status, response]) => {
		const plain = resolve(response);
		const isError = status >= "400" && status !== "default";
		return make("tr", {}, make("td", {}, make("code", {}, status)),
			make("td", {}, paragraph(plain.description), ...(isError && response.$ref ? [] : contentOf(plain.content))));
	});
	return make("table", {}, make("tbody", {}, ...rows));
};

const exampleOf = (method, path, body) => {
	const schema = body && Object.values(body.content)[0].schema;
	const example = schema && resolve(schema).example;
	const lines = [`curl -X ${method.toUpperCase()} "$PANDASTACK_API${path}" -H "Authorization: Bearer $PANDASTACK_API_KEY"`];
	if (example) {
		lines.push(`-H 'Content-Type: application/json' -d '${JSON.stringify(example)}'`);
	}
	return make("pre", {}, lines.join(" \\\n  "));
};

const parametersOf = (parameters) => {
	const rows = parameters.map(resolve).map((one) => {
		const schema = { ...resolve(one.schema), description: one.description };
		return rowOf(`${one.name} (${one.in})`, schema, one.required, 4);
	});
	return rows.length ? make("table", {}, make("tbody", {}, ...rows)) : null;
};

const titled = (title, content) => (content ? [make("h4", {}, title), content] : []);

const operationOf = (path, method, operation) => {
	const body = operation.requestBody;
	const key = operation.security.length ? null : make("p", { className: "dim" }, "Needs no key.");
	const section = make("section", { id: operation.operationId },
		make("h3", {}, make("span", { className: "method" }, method.toUpperCase()), make("code", {}, path)),
		make("p", { className: "text" }, make("strong", {}, ...prose(operation.summary))), paragraph(operation.description), key,
		...titled("Parameters", parametersOf(operation.parameters)),
		...titled(body && body.required ? "Body, required" : "Body", body ? make("div", {}, ...contentOf(body.content)) : null),
		...titled("Answers", answersOf(operation.responses)),
		...titled("Example", exampleOf(method, path, body)));
	section.dataset.words = `${method} ${path} ${operation.summary}`.toLowerCase();
	return section;
};

const linkOf = (path, method, operation) => {
	const link = make("a", { href: `#${operation.operationId}` },
		make("span", { className: "method" }, method.toUpperCase()), path.replace("/v1/sandboxes/{id}", "…"));
	link.dataset.words = `${method} ${path} ${operation.summary}`.toLowerCase();
	return link;
};

// ---- the page ----

const operationsOf = (tag) =>
	Object.entries(description.paths).flatMap(([path, item]) =>
		Object.entries(item).filter(([, operation]) => operation.tags.includes(tag)).map(([method, operation]) => [path, method, operation]));

const show = () => {
	const main = document.getElementById("main");
	const contents = document.getElementById("contents");
	main.replaceChildren(make("h1", {}, `${description.info.title} ${description.info.version}`), paragraph(description.info.description));
	for (const tag of description.tags) {
		const operations = operationsOf(tag.name);
		main.append(make("h2", {}, tag.name), paragraph(tag.description), ...operations.map((one) => operationOf(...one)));
		contents.append(make("h2", {}, tag.name), ...operations.map((one) => linkOf(...one)));
	}
	if (location.hash) {
		document.getElementById(location.hash.slice(1))?.scrollIntoView();
	}
};

const filter = (event) => {
	const wanted = event.target.value.trim().toLowerCase();
	for (const element of document.querySelectorAll("[data-words]")) {
		element.hidden = !element.dataset.words.includes(wanted);
	}
};

const start = async () => {
	document.getElementById("filter").addEventListener("input", filter);
	try {
		const answer = await fetch("/openapi.json");
		description = await answer.json();
		show();
	} catch (problem) {
		document.getElementById("state").textContent = `/openapi.json could not be shown: ${problem.message}`;
	}
};

start();
