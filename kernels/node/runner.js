'use strict';
/*
 * The runner of a Node session: cells by way of V8's own inspector, which knows how to redeclare const and let, to
 * await at the top, and to give the last value. Started by sandglass-node-runner (runner.c), whose other end the
 * descriptors ASK and WAKE are. Protocol: src/wire/frames.h.
 *
 * Between cells the event loop runs on: timers, servers and promises live. The socket is read by a thread of libuv's
 * pool meanwhile.
 *
 * Interrupts. A second thread (a Worker, interrupts.js) waits for them and tells the main thread. A cell that
 * only waits is ended, with the timers that were made while it ran. If there is no answer, the main thread computes,
 * or was given no processor. So it is asked, by the inspector, which can call a function on top of running code:
 * judge() looks at the stack, and where there is code of the user's it stays right there until the second thread has
 * asked for the termination. So that meets the user's code, never ours; no catch or finally can hold it up. Pending
 * reactions of promises are dropped by it, so no promise of our own is used.
 */
const fs = require('fs');
const { Worker } = require('worker_threads');
const inspector = require('inspector');
const { ACKNOWLEDGED, ASKED, HELD, NEWS, JUDGED, IS_USER, GO, NEVER, JUDGE, JUDGE_PLACE, WATCHER } = require('./interrupts.js');

/* A cell may declare names like these, and would be heard here too. */
const { Array, ArrayBuffer, Atomics, Buffer, Date, Error, Int32Array, JSON, Map, Number, Object, Promise, SharedArrayBuffer,
	String, Symbol, console, process, setImmediate } = globalThis;

const SOCKET = 3, ASK = 4, OUT = 6, ERR = 7;

main();

function main() {
	const Module = require('module');
	const childProcess = require('child_process');
	const path = require('path');
	const timers = require('timers');
	const timersPromises = require('timers/promises');
	const util = require('util');
	const vm = require('vm');
	const { Console } = require('console');
	const { Writable } = require('stream');
	const { HELPER, rewrite } = require('./imports.js');
	const { readSync, writeSync, read, existsSync, mkdirSync, readlinkSync } = fs;
	const immediate = setImmediate; /* users get another */
	const { stringify } = JSON;
	const terminate = process.reallyExit.bind(process);
	const shared = new Int32Array(new SharedArrayBuffer(32));
	const session = new inspector.Session();

	// ---- order: see streams.py of the Python kernel ----

	const TO_OUT = 1, TO_ERR = 2, TO_SOCKET = 4, ALL = 7;
	const FRESH = 0, UNKNOWN = 8;
	let last = FRESH; /* who wrote last */
	let question = 0;

	/** Waits until what was written to these is read. */
	function settle(queues) {
		const answer = Buffer.allocUnsafe(1);
		question = (question + 1) & 255;
		writeSync(ASK, Buffer.from([0x62, question, queues]));
		do
			readSync(ASK, answer, 0, 1, null);
		while (answer[0] !== question); /* an older one's, whose asker was terminated */
	}

	function before(who) {
		if (last !== who && last !== FRESH)
			settle(ALL & ~who);
		last = who;
	}

	/** Ahead of a program's own writing. */
	function beforeOthers() {
		settle(ALL);
		last = UNKNOWN;
	}

	function put(who, bytes) {
		before(who);
		for (let done = 0; done < bytes.length;) {
			try {
				done += writeSync(who === TO_OUT ? OUT : ERR, bytes, done);
			} catch (error) {
				if (error.code === 'EPIPE')
					return; /* nobody reads */
				if (error.code !== 'EAGAIN')
					throw error;
				Atomics.wait(shared, NEVER, 0, 1); /* a child has made the shared pipe non-blocking */
			}
		}
	}

	// ---- frames ----

	const RUN = 1, READY = 16, DISPLAY = 17, RESULT = 18, ERROR = 19, DONE = 20, UPDATE = 21, CLEAR = 22;
	const HEADER = 8, PAYLOAD = 65536 - HEADER, MORE = 1;

	const escape = text => text.replace(/[\u007f-\uffff]/g, c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
	/** Lone surrogates are no text. */
	const wellFormed = text => /[\ud800-\udfff]/.test(text) ? Buffer.from(text).toString() : text;

	function send(run, kind, value) {
		const payload = Buffer.from(escape(stringify(value, (_, item) => typeof item === 'string' ? wellFormed(item) : item)), 'latin1');
		if (kind !== DONE)
			settle(TO_OUT | TO_ERR); /* also what programs have written */
		last = TO_SOCKET;
		shared[HELD] = 1;
		try {
			for (let at = 0; at === 0 || at < payload.length; at += PAYLOAD) {
				const part = payload.subarray(at, at + PAYLOAD);
				const packet = Buffer.allocUnsafe(HEADER + part.length);
				packet.writeUInt32LE(run, 0);
				packet.writeUInt16LE(kind, 4);
				packet.writeUInt16LE(at + PAYLOAD < payload.length ? MORE : 0, 6);
				part.copy(packet, HEADER);
				writeSync(SOCKET, packet);
			}
		} catch {
			terminate(0); /* nobody is there any more */
		}
		shared[HELD] = 0;
	}

	let isReading = false;
	let parts = [];
	const packet = Buffer.allocUnsafe(HEADER + PAYLOAD);

	function listen() {
		if (isReading || cell)
			return;
		isReading = true;
		read(SOCKET, packet, 0, packet.length, null, onPacket);
	}

	function onPacket(error, size) {
		isReading = false;
		if (error ? error.code !== 'EINTR' : size === 0)
			terminate(0);
		if (!error && size >= HEADER && packet.readUInt16LE(4) === RUN) {
			parts.push(Buffer.from(packet.subarray(HEADER, size)));
			if (!(packet.readUInt16LE(6) & MORE)) {
				const code = Buffer.concat(parts).toString();
				parts = [];
				return begin(packet.readUInt32LE(0), code);
			}
		}
		listen();
	}

	// ---- the inspector ----

	let received; /* what the hook was called with last */
	let hookId;

	function connect() {
		session.connect();
		globalThis[HELPER] = value => { received = value; };
		session.post('Runtime.evaluate', { expression: HELPER }, (_, answer) => { hookId = answer.result.objectId; });
	}

	/** The value that the inspector speaks of. */
	function valueOf(remote) {
		if (remote.type === 'undefined')
			return undefined;
		if (remote.subtype === 'null')
			return null;
		const argument = remote.objectId ? { objectId: remote.objectId }
			: remote.unserializableValue ? { unserializableValue: remote.unserializableValue } : { value: remote.value };
		received = undefined;
		session.post('Runtime.callFunctionOn', { objectId: hookId, functionDeclaration: 'function (v) { this(v) }', arguments: [argument] });
		const value = received;
		received = undefined;
		return value;
	}

	/** As Node's own REPL does: what looks like a block may be an object. */
	function asExpression(code) {
		if (!/^\s*\{/.test(code) || /;\s*$/.test(code))
			return code;
		try {
			new vm.Script(`(${code}\n)`);
			return `(${code}\n)`;
		} catch {
			return code;
		}
	}

	// ---- cells ----

	let cell = null; /* { run, exit, isOver } of the one under way */
	let count = 0;

	function begin(run, code) {
		const mine = { run, code, exit: 0, isOver: false, hasFailed: false };
		cell = mine;
		count++;
		last = FRESH;
		young.clear();
		process.exitCode = undefined;
		mend();
		const expression = `${rewrite(asExpression(code))}\n//# sourceURL=cell-${count}`;
		session.post('Runtime.evaluate', { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' },
			(error, answer) => onAnswer(mine, error, answer));
	}

	let handled = 0; /* the last interrupt that has met its cell */

	function onAnswer(mine, error, answer) {
		if (mine !== cell || mine.isOver)
			return; /* it was ended, and goes on by itself */
		if (error) {
			handled = shared[ASKED];
			interrupted(mine);
		} else if (answer.exceptionDetails)
			failed(mine, valueOf(answer.exceptionDetails.exception), answer.exceptionDetails);
		else
			show(mine, answer.result);
		over(mine);
	}

	function show(mine, remote) {
		if (remote.type === 'undefined')
			return;
		try {
			const value = valueOf(remote);
			setLast(value);
			send(mine.run, RESULT, { data: bundleOf(value, false) });
		} catch (error) {
			failed(mine, error);
		}
	}

	/** It has ended; what it has left for this turn of the loop may still fail it. */
	function over(mine) {
		mine.isOver = true;
		immediate(finish, mine);
	}

	function finish(mine) {
		if (mine !== cell)
			return;
		cell = null;
		const code = mine.exit || Number(process.exitCode ?? 0) & 255;
		process.exitCode = undefined;
		session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
		send(mine.run, DONE, { exit: code });
		listen();
	}

	const LIMIT = 1 << 20; /* characters of a text */
	const bounded = text => text.length <= LIMIT ? text : `${text.slice(0, LIMIT)}\n... ${text.length - LIMIT} more characters`;

	/** The stack down to where we have called. */
	function prepareStackTrace(error, frames) {
		let end = frames.findIndex(frame => frame.getFileName() === __filename);
		if (end < 0)
			end = frames.length;
		else if (end > 0 && frames[end - 1].getFileName() === 'node:inspector')
			end--;
		let head;
		try {
			head = Error.prototype.toString.call(error);
		} catch {
			head = 'Error';
		}
		return [head, ...frames.slice(0, end).map(frame => `    at ${frame}`)].join('\n');
	}

	function describe(error, details, code) {
		if (!util.types.isNativeError(error)) {
			const text = bounded(util.inspect(error));
			return { name: 'Uncaught', message: text, traceback: `Uncaught ${text}` };
		}
		const name = String(error.name), message = String(error.message);
		let text = util.inspect(error);
		if (details && name === 'SyntaxError' && !text.includes('cell-')) {
			const { lineNumber, columnNumber } = details;
			const line = code.split('\n')[lineNumber] ?? '';
			text = text.replace(/^\[(.*)\]$/s, '$1');
			text = `cell-${count}:${lineNumber + 1}\n${line.slice(0, 500)}\n${line.slice(0, Math.min(columnNumber, 500)).replace(/[^\t]/g, ' ')}^\n${text}`;
		}
		return { name, message, traceback: bounded(text) };
	}

	function failed(mine, error, details) {
		let told;
		try {
			told = describe(error, details, mine.code);
		} catch {
			told = { name: 'Error', message: '(it cannot be shown)', traceback: 'Uncaught (it cannot be shown)' };
		}
		put(TO_ERR, Buffer.from(told.traceback + '\n'));
		mine.exit ||= 1;
		if (!mine.hasFailed)
			send(mine.run, ERROR, told);
		mine.hasFailed = true;
	}

	function interrupted(mine) {
		if (mine.hasExited)
			return;
		const text = 'Interrupted: the cell was stopped';
		put(TO_ERR, Buffer.from(text + '\n'));
		mine.exit ||= 1;
		if (!mine.hasFailed)
			send(mine.run, ERROR, { name: 'Interrupted', message: 'the cell was stopped', traceback: text });
		mine.hasFailed = true;
	}

	// ---- what happens to a cell ----

	function tellNews() {
		Atomics.add(shared, NEWS, 1);
		Atomics.notify(shared, NEWS);
	}

	/* Reactions of promises that never end may be met between two of them only. Who was asked so often and has not
	 * come to the interrupt's message, which a turn of the loop would have brought, is in there. */
	const JUDGED_ENOUGH = 5;
	let judged = 0, judgedFor = 0;

	/** Called by the inspector, on top of what runs. No regular expression: one may be running. */
	function judge(number) {
		const { prepareStackTrace: own, stackTraceLimit: limit } = Error;
		const holder = {};
		Error.prepareStackTrace = (_, frames) => frames;
		Error.stackTraceLimit = Infinity;
		Error.captureStackTrace(holder);
		const frames = holder.stack;
		Error.prepareStackTrace = own;
		Error.stackTraceLimit = limit;
		if (judgedFor !== shared[ASKED])
			judged = 0;
		judgedFor = shared[ASKED];
		judged++;
		const isUser = !shared[HELD] && judgedFor !== shared[ACKNOWLEDGED] && (judged > JUDGED_ENOUGH || frames.some(frame => {
			const name = frame.getScriptNameOrSourceURL() ?? frame.getEvalOrigin();
			return name && name !== __filename && name !== JUDGE_PLACE && !name.startsWith('node:');
		}));
		Atomics.store(shared, IS_USER, Number(isUser));
		Atomics.store(shared, JUDGED, number);
		tellNews();
		if (isUser && Atomics.wait(shared, GO, number - 1, 1000) === 'timed-out')
			Atomics.store(shared, IS_USER, 0);
	}

	function onInterrupt(number) {
		Atomics.store(shared, ACKNOWLEDGED, number);
		tellNews();
		const mine = cell;
		if (!mine || number <= handled)
			return listen();
		for (const clear of young.values())
			clear();
		young.clear();
		if (!mine.isOver)
			interrupted(mine);
		over(mine);
	}

	function onUncaught(error) {
		if (!cell) {
			try {
				put(TO_ERR, Buffer.from(describe(error).traceback + '\n'));
			} catch { /* it cannot be shown */ }
			return;
		}
		failed(cell, error); /* a script would end here */
		if (!cell.isOver)
			over(cell);
	}

	/** Ends the cell, not the session: no catch and no finally of the cell runs. */
	function exit(code = process.exitCode) {
		const number = Number(code ?? 0) & 255;
		if (cell) {
			try {
				if (!cell.hasExited) {
					cell.hasExited = true;
					process.emit('exit', number);
				}
			} finally {
				process.removeAllListeners('exit');
			}
			cell.exit = number;
			process.exitCode = undefined;
			over(cell);
		}
		session.post('Runtime.terminateExecution');
		for (;;)
			; /* until it takes effect */
	}

	/* Timers that were made while the cell runs: id -> how to end them. */
	const young = new Map();

	function adoptTimers() {
		const wrap = (start, clear, isRepeated) => {
			const wrapped = function (callback, ...rest) {
				if (typeof callback !== 'function')
					return start(callback, ...rest);
				const timer = start(isRepeated ? callback : function (...values) {
					young.delete(timer);
					return callback.apply(this, values);
				}, ...rest);
				if (cell)
					young.set(timer, () => clear(timer));
				return timer;
			};
			Object.defineProperty(wrapped, 'name', { value: start.name });
			return wrapped;
		};
		const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = timers;
		const made = { setTimeout: wrap(setTimeout, clearTimeout), setInterval: wrap(setInterval, clearInterval, true),
			setImmediate: wrap(setImmediate, clearImmediate) };
		const wait = (start, isImmediate) => (...given) => {
			const options = given[isImmediate ? 1 : 2] ?? {}, value = given[isImmediate ? 0 : 1];
			if (options.signal || options.ref === false)
				return timersPromises[isImmediate ? 'setImmediate' : 'setTimeout'](...given);
			return new Promise(resolve => isImmediate ? start(resolve, value) : start(resolve, given[0], value));
		};
		const later = wait(made.setTimeout, false), soon = wait(made.setImmediate, true);
		Object.defineProperty(made.setTimeout, util.promisify.custom, { value: later });
		Object.defineProperty(made.setImmediate, util.promisify.custom, { value: soon });
		Object.assign(timers, made);
		Object.assign(globalThis, made);
		Object.defineProperty(require('timers'), 'promises', {
			configurable: true, enumerable: true, value: promisesWith(later, soon) });
	}

	function promisesWith(later, soon) {
		const own = { setTimeout: timersPromises.setTimeout, setImmediate: timersPromises.setImmediate };
		timersPromises.setTimeout = (...given) => given[2]?.signal || given[2]?.ref === false ? own.setTimeout(...given) : later(...given);
		timersPromises.setImmediate = (...given) => given[1]?.signal || given[1]?.ref === false ? own.setImmediate(...given) : soon(...given);
		return timersPromises;
	}

	// ---- what is displayed ----

	const isBundle = value => value !== null && typeof value === 'object' && !Array.isArray(value) &&
		Object.keys(value).length > 0 && Object.keys(value).every(key => /^[a-z]+\/[\w.+-]+$/.test(key));
	const JUPYTER = Symbol.for('Jupyter.display');

	function textOf(mime, value) {
		if (typeof value === 'string')
			return value;
		if (ArrayBuffer.isView(value))
			return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString(/^text\/|json|xml/.test(mime) ? 'utf8' : 'base64');
		return stringify(value) ?? String(value);
	}

	function bundleOf(value, takesBundle) {
		const own = value !== null && typeof value === 'object' && typeof value[JUPYTER] === 'function' ? value[JUPYTER]() : null;
		if (isBundle(own) || (takesBundle && isBundle(value)))
			return Object.fromEntries(Object.entries(isBundle(own) ? own : value).map(([mime, item]) => [mime, textOf(mime, item)]));
		return { 'text/plain': bounded(util.inspect(value)) };
	}

	function display(value, { id, update = false } = {}) {
		if (cell)
			send(cell.run, update ? UPDATE : DISPLAY, { data: bundleOf(value, true), ...(id === undefined ? {} : { id: String(id) }) });
	}
	display.clear = ({ wait = false } = {}) => {
		if (cell)
			send(cell.run, CLEAR, { wait: Boolean(wait) });
	};

	let lastValue;
	function setLast(value) {
		if (!Object.hasOwn(globalThis, '_') || Object.is(globalThis._, lastValue))
			globalThis._ = lastValue = value;
	}

	// ---- what a session finds around it ----

	/** Synchronous, in order, and nothing that user code calls closes it. */
	function makeStream(fd, who) {
		const stream = new Writable({
			decodeStrings: false,
			write(chunk, encoding, done) {
				try {
					put(who, typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);
				} catch (error) {
					return done(error);
				}
				done();
			},
		});
		stream.end = function (chunk, encoding, done) {
			if (chunk !== undefined && chunk !== null && typeof chunk !== 'function')
				stream.write(chunk, typeof encoding === 'string' ? encoding : undefined);
			const callback = [chunk, encoding, done].find(item => typeof item === 'function');
			if (callback)
				process.nextTick(callback);
			return stream;
		};
		stream.destroy = stream.destroySoon = () => stream;
		return Object.assign(stream, { fd, _type: 'pipe', _isStdio: true });
	}

	function placeStreams() {
		for (const [name, fd, who] of [['stdout', 1, TO_OUT], ['stderr', 2, TO_ERR]]) {
			const stream = makeStream(fd, who);
			Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream });
		}
		const own = new Console({ stdout: process.stdout, stderr: process.stderr });
		for (const name of Object.keys(own))
			if (typeof own[name] === 'function')
				console[name] = own[name]; /* the inspector would keep what is logged */
	}

	const workspace = process.cwd();
	let folder;

	/** Where the working folder was removed, names of files lead nowhere: on in the workspace, made again if need be. */
	function leaveRemovedFolder() {
		try {
			if (existsSync(readlinkSync('/proc/self/cwd'))) /* process.cwd() tells what it was */
				return;
			mkdirSync(workspace, { recursive: true });
			process.chdir(workspace);
			process.stderr.write(`[the working folder was removed; the session goes on in ${workspace}]\n`);
		} catch {
			/* it stays where it is, and calls say why they fail */
		}
	}

	/** Ahead of a cell: names are found from the working folder. */
	function mend() {
		let now;
		leaveRemovedFolder();
		try {
			now = process.cwd();
		} catch {
			now = '/';
		}
		if (now === folder)
			return;
		folder = now;
		const file = path.join(now, '[cell]');
		const module = new Module(file);
		module.filename = file;
		module.paths = Module._nodeModulePaths(now);
		const require = Module.createRequire(file);
		require.main = module;
		const importer = new Module(file);
		importer._compile('module.exports = (name, options) => import(name, options)', file);
		const hidden = { [HELPER]: importer.exports };
		for (const [name, value] of Object.entries({ require, module, exports: module.exports, __dirname: now, __filename: file, ...hidden }))
			Object.defineProperty(globalThis, name, { configurable: true, writable: true, enumerable: false, value });
	}

	/** As in Node's own REPL: built-in modules by their name, loaded when used. */
	function nameModules() {
		for (const name of Module.builtinModules) {
			if (/[/_]/.test(name) || name in globalThis)
				continue;
			const set = value => Object.defineProperty(globalThis, name, { configurable: true, enumerable: false, writable: true, value });
			Object.defineProperty(globalThis, name, { configurable: true, enumerable: false, get: () => require(name), set });
		}
	}

	function adoptPrograms() {
		const { ChildProcess } = childProcess;
		const spawn = ChildProcess.prototype.spawn;
		ChildProcess.prototype.spawn = function (...given) {
			beforeOthers();
			return spawn.apply(this, given);
		};
		for (const name of ['spawnSync', 'execSync', 'execFileSync']) {
			const own = childProcess[name];
			childProcess[name] = function (...given) {
				beforeOthers();
				writeSync(ASK, 's');
				try {
					if (shared[ASKED] !== shared[ACKNOWLEDGED])
						throw new Error('Interrupted');
					return own.apply(this, given);
				} finally {
					writeSync(ASK, 'e');
				}
			};
		}
		Module.syncBuiltinESMExports();
	}

	function start() {
		process.env.UV_THREADPOOL_SIZE = '5'; /* one waits for the next cell */
		placeStreams();
		adoptTimers();
		adoptPrograms();
		connect();
		mend();
		nameModules();
		Object.defineProperty(globalThis, JUDGE, { value: judge });
		Object.defineProperty(globalThis, 'display', { configurable: true, writable: true, enumerable: false, value: display });
		process.exit = exit;
		Error.prepareStackTrace = prepareStackTrace;
		process.argv.splice(1);
		process.execArgv.splice(0);
		process.on('uncaughtException', onUncaught);
		process.on('unhandledRejection', onUncaught);
		send(0, READY, { language: 'node', version: process.versions.node });
		listen();
		delete process.env.UV_THREADPOOL_SIZE;
		const worker = new Worker(WATCHER, { workerData: shared, execArgv: [] });
		worker.on('message', onInterrupt); /* and it keeps the loop going while a cell waits for nothing */
	}

	start();
}
