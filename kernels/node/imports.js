'use strict';
/*
 * `import` in cells. The code of a cell is a script, in which V8 knows no import statement, and where nobody
 * answers import(). So both become calls of a helper. A small scanner tells code from strings, comments, templates
 * and regular expressions; lines stay where they are.
 */

const HELPER = '__sandglassImport';
const WORD = /[\p{ID_Start}$_][\p{ID_Continue}$\u200c\u200d]*/uy;
/* After these words a slash begins a regular expression. */
const BEFORE_VALUE = new Set(['return', 'typeof', 'instanceof', 'in', 'of', 'new', 'delete', 'void', 'throw', 'case',
	'do', 'else', 'yield', 'await']);
const STRING = String.raw`('[^'\n]*'|"[^"\n]*")`;
const NAME = String.raw`[\p{ID_Start}$_][\p{ID_Continue}$]*`;
const STATEMENT = new RegExp(
	String.raw`import(?:\s*${STRING}|` +
	String.raw`\s*(?:(?<own>${NAME})\s*(?:,\s*)?)?(?:\*\s*as\s+(?<all>${NAME})|(?<some>\{[^}]*\}))?\s*from\s*(?<from>${STRING}))` +
	String.raw`(?:\s*(?:with|assert)\s*(?<options>\{[^}]*\}))?[ \t]*;?`, 'uy');

function skipString(code, at) {
	const quote = code[at++];
	while (at < code.length && code[at] !== quote && code[at] !== '\n')
		at += code[at] === '\\' ? 2 : 1;
	return at + 1;
}

function skipRegex(code, at) {
	let inClass = false;
	for (at++; at < code.length && code[at] !== '\n'; at++) {
		if (code[at] === '\\')
			at++;
		else if (code[at] === '[')
			inClass = true;
		else if (code[at] === ']')
			inClass = false;
		else if (code[at] === '/' && !inClass)
			return at + 1;
	}
	return at;
}

function replaceStatement(match) {
	const { own, all, some, from, options } = match.groups;
	const lines = '\n'.repeat(match[0].split('\n').length - 1);
	const load = `await ${HELPER}(${from || match[1]}${options ? `, ${options.replace(/\s+/g, ' ')}` : ''})`;
	if (!from)
		return `${load};${lines}`;
	const names = some ? some.slice(1, -1).replace(/\s+as\s+/g, ': ').replace(/\s+/g, ' ') : '';
	if (all)
		return `const ${all} = ${load}${own ? `, ${own} = ${all}.default` : ''};${lines}`;
	if (own)
		return `const { default: ${own}${names.trim() ? `, ${names}` : ''} } = ${load};${lines}`;
	return `const {${names}} = ${load};${lines}`;
}

/* What is left of `import` at this place, or null: [text, end]. */
function replaceImport(code, at, isStatementStart, depth) {
	STATEMENT.lastIndex = at;
	const match = isStatementStart && depth === 0 ? STATEMENT.exec(code) : null;
	if (match && (match.groups.from === undefined || match.groups.own || match.groups.all || match.groups.some))
		return [replaceStatement(match), STATEMENT.lastIndex];
	return /^import\s*\(/.test(code.slice(at, at + 200)) ? [HELPER, at + 6] : null;
}

/** The code with its imports replaced. */
function rewrite(code) {
	if (!code.includes('import'))
		return code;
	const templates = []; /* depths of braces at which a template goes on */
	let out = '', kept = 0, depth = 0, last = ';', lastWord = '', lineBefore = true;
	const template = at => {
		while (at < code.length) {
			if (code[at] === '\\')
				at += 2;
			else if (code[at] === '`')
				return at + 1;
			else if (code.startsWith('${', at)) {
				templates.push(depth++);
				last = '{';
				return at + 2;
			} else
				at++;
		}
		return at;
	};
	for (let at = 0; at < code.length;) {
		const c = code[at];
		if (c === '\n' || c === ' ' || c === '\t' || c === '\r') {
			lineBefore ||= c === '\n';
			at++;
			continue;
		}
		if (code.startsWith('//', at) || (at === 0 && code.startsWith('#!'))) {
			const end = code.indexOf('\n', at);
			at = end < 0 ? code.length : end;
			continue;
		}
		if (code.startsWith('/*', at)) {
			const end = code.indexOf('*/', at + 2);
			at = end < 0 ? code.length : end + 2;
			continue;
		}
		WORD.lastIndex = at;
		const word = WORD.exec(code)?.[0];
		const endsValue = last === 'value' || last === ')' || last === ']' || last === '}' ||
			(last === 'word' && !BEFORE_VALUE.has(lastWord));
		if (word) {
			const isStart = last === ';' || last === '}' || lineBefore;
			const found = word === 'import' && last !== '.' ? replaceImport(code, at, isStart, depth) : null;
			if (found) {
				out += code.slice(kept, at) + found[0];
				kept = at = found[1];
				last = found[0] === HELPER ? 'word' : ';';
				lastWord = '';
				lineBefore = found[0] !== HELPER;
				continue;
			}
			at += word.length;
			last = 'word';
			lastWord = word;
		} else if (c === '"' || c === "'") {
			at = skipString(code, at);
			last = 'value';
		} else if (c === '`') {
			last = 'value';
			at = template(at + 1);
		} else if (c === '}' && templates.at(-1) === depth - 1) {
			depth = templates.pop();
			last = 'value';
			at = template(at + 1);
		} else if (c === '/' && !endsValue) {
			at = skipRegex(code, at);
			last = 'value';
		} else if (c >= '0' && c <= '9') {
			at++;
			last = 'value';
		} else {
			depth += '([{'.includes(c) ? 1 : ')]}'.includes(c) ? -1 : 0;
			last = c;
			at++;
		}
		lineBefore = false;
	}
	return out + code.slice(kept);
}

module.exports = { HELPER, rewrite };
