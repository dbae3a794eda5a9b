'use strict';
/*
 * The second thread of the runner: waits for interrupts, and sees each to its end (see runner.js). The main thread
 * takes from here what the two share.
 */
const fs = require('fs');
const { isMainThread, parentPort, workerData } = require('worker_threads');
const inspector = require('inspector');

const WAKE = 5; /* a descriptor */
/* Places in the array that the threads share: numbers of interrupts, of questions to judge(). */
const ACKNOWLEDGED = 0, ASKED = 1, HELD = 2, NEWS = 3, JUDGED = 4, IS_USER = 5, GO = 6, NEVER = 7;
const JUDGE = '__sandglassJudge', JUDGE_PLACE = 'sandglass-judge';

module.exports = { ACKNOWLEDGED, ASKED, HELD, NEWS, JUDGED, IS_USER, GO, NEVER, JUDGE, JUDGE_PLACE, WATCHER: __filename };

if (!isMainThread)
	watch();

function watch() {
	const shared = workerData;
	const session = new inspector.Session();
	const byte = Buffer.alloc(1);
	const PATIENCE_MS = 30, LIMIT_MS = 5000;
	let question = 0;

	function ask() {
		const expression = `${JUDGE}(${++question})\n//# sourceURL=${JUDGE_PLACE}`;
		session.post('Runtime.evaluate', { expression, silent: true });
	}

	function pass() {
		const number = Atomics.add(shared, ASKED, 1) + 1;
		if (Atomics.load(shared, JUDGED) === question) /* an answer that came too late for an earlier one */
			Atomics.store(shared, GO, question);
		parentPort.postMessage(number);
		for (const end = Date.now() + LIMIT_MS; Date.now() < end;) {
			const news = Atomics.load(shared, NEWS);
			if (Atomics.load(shared, ACKNOWLEDGED) === number)
				return;
			if (Atomics.load(shared, GO) !== question && Atomics.load(shared, JUDGED) === question) {
				if (Atomics.load(shared, IS_USER))
					session.post('Runtime.terminateExecution');
				Atomics.store(shared, GO, question);
				Atomics.notify(shared, GO);
			}
			if (Atomics.wait(shared, NEWS, news, PATIENCE_MS) === 'timed-out' && Atomics.load(shared, GO) === question)
				ask();
		}
	}

	function next() {
		if (fs.readSync(WAKE, byte, 0, 1, null) === 0)
			return;
		pass();
		setImmediate(next); /* what the session has answered is taken in between */
	}

	session.connectToMainThread();
	next();
}
