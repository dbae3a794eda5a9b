"""What a Node cell may rely on, one sentence a test."""
import os
import signal
import time

import pytest

from harness import KernelDied


def test_names_carry_over_and_can_be_declared_again(kernel):
    kernel.run("const a = 1; let b = 2; class C {}; function f() { return a + b; }")
    assert kernel.run("const a = 40; let b = 2; f()").text == "42"
    assert kernel.run("typeof C").text == "'function'"


@pytest.mark.parametrize("code", ["const x = 5", "undefined", "for (const i of [1]) { }", "function f() { return 1 }", "", "  \n", "// only a comment", "void 0"])
def test_cells_without_a_value_have_no_result(kernel, code):
    run = kernel.run(code)
    assert [kind for kind, _ in run.log if kind != "result"] == ["done"] and run.exit == 0
    assert run.result is None


@pytest.mark.parametrize("code, text", [
    ("1 + 1", "2"), ("7;", "7"), ("'é\\n'", "'é\\n'"), ("'漢🙂;'", "'漢🙂;'"), ("{a: 1}", "{ a: 1 }"), ("({a: [1, 2]})", "{ a: [ 1, 2 ] }"), ("{ let z = 3; z }", "3"), ("null", "null"),
    ("10n", "10n"), ("-0", "-0"), ("NaN", "NaN"), ("Symbol('s')", "Symbol(s)"), ("[1, , 3]", "[ 1, <1 empty item>, 3 ]"), ("new Map([[1, {a: 2}]])", "Map(1) { 1 => { a: 2 } }"),
    ("await Promise.resolve(7)", "7"), ("const {p} = await Promise.resolve({p: 3}); p", "3"), ("await new Promise(r => setTimeout(r, 20, 'late'))", "'late'"),
    ("for await (const v of (async function* () { yield 1 })()) console.assert(v); 5", "5"), ("x = 'a\\ud800b'; 1", "1")])
def test_the_last_expression_is_the_result(kernel, code, text):
    run = kernel.run(code)
    assert (run.text, run.exit, run.stdout, run.stderr) == (text, 0, "", "")


def test_underscore_holds_the_last_value_until_it_is_the_users(kernel):
    kernel.run("40 + 2")
    assert kernel.run("_ + 1").text == "43"
    kernel.run("_ = 'mine'")
    kernel.run("5")
    assert kernel.run("_").text == "'mine'"


def test_long_code_and_odd_characters_come_through(kernel):
    assert kernel.run("const s = '" + "é" * 500_000 + "'; s.length").text == "500000"
    assert kernel.run("const größe = '漢🙂'; console.log(größe); größe.length").stdout == "漢🙂\n"


# ------------------------------------------------------------ output and its order

def test_streams_and_frames_are_read_in_the_order_of_writing(kernel):
    code = "for (let i = 0; i < 30; i++) { console.log('o' + i); console.error('e' + i); display({'text/html': String(i)}); }"
    run = kernel.run(code)
    wanted = [entry for i in range(30) for entry in (("stdout", f"o{i}\n"), ("stderr", f"e{i}\n"), ("display", {"data": {"text/html": str(i)}}))]
    assert run.log == [*wanted, ("done", {"exit": 0})]


def test_programs_write_in_order_too(kernel):
    run = kernel.run("console.log(1); require('child_process').execSync('echo 2', {stdio: 'inherit'}); console.error(3); display(4); console.log(5)")
    assert run.log == [("stdout", "1\n2\n"), ("stderr", "3\n"), ("display", {"data": {"text/plain": "4"}}), ("stdout", "5\n"), ("done", {"exit": 0})]


def test_a_lot_of_output_comes_through(kernel):
    run = kernel.run("process.stdout.write('x'.repeat(1000000)); process.stderr.write('y'.repeat(1000000)); for (let i = 0; i < 1000; i++) console.log(i)")
    assert run.stderr == "y" * 1000000 and run.stdout == "x" * 1000000 + "".join(f"{i}\n" for i in range(1000))


def test_closed_streams_come_back(kernel):
    run = kernel.run("process.stdout.end('bye\\n'); process.stderr.destroy(); require('fs').closeSync(1); console.log('still')")
    assert run.stdout == "bye\nstill\n"
    assert kernel.run("console.log('again'); console.error('e')").stdout == "again\n"


def test_the_callback_of_a_write_is_called(kernel):
    assert kernel.run("await new Promise(r => process.stdout.write('w\\n', r)); await new Promise(r => process.stdout.end(r)); 1").text == "1"


# ------------------------------------------------------------ displays

def test_bundles_have_strings_only(kernel):
    run = kernel.run("display({'image/png': Buffer.from([1, 2, 3]), 'application/json': {a: [1]}, 'text/plain': 'p'})")
    assert run.displays == [{"image/png": "AQID", "application/json": '{"a":[1]}', "text/plain": "p"}]


def test_values_are_displayed_as_text(kernel):
    assert kernel.run("display({a: 1}); display('s'); display(null)").displays == [{"text/plain": "{ a: 1 }"}, {"text/plain": "'s'"}, {"text/plain": "null"}]


def test_an_object_may_say_how_it_is_shown(kernel):
    run = kernel.run("({ [Symbol.for('Jupyter.display')]() { return { 'text/html': '<b>' } } })")
    assert run.result == {"text/html": "<b>"}


def test_displays_are_updated_and_cleared(kernel):
    run = kernel.run("display(1, {id: 'a'}); display(2, {id: 'a', update: true}); display.clear({wait: true})")
    assert run.all("display", "update", "clear") == [{"data": {"text/plain": "1"}, "id": "a"}, {"data": {"text/plain": "2"}, "id": "a"}, {"wait": True}]


def test_values_larger_than_a_packet_come_through_whole(kernel):
    assert kernel.run("display({'text/plain': 'é'.repeat(200000)})").displays == [{"text/plain": "é" * 200000}]


# ------------------------------------------------------------ errors

def test_errors_are_told_with_the_users_lines_only(kernel):
    kernel.run("function outer() {\n  inner();\n}\nfunction inner() { throw new RangeError('boom') }")
    run = kernel.run("\nouter()")
    assert run.error == {"name": "RangeError", "message": "boom", "traceback": "RangeError: boom\n    at inner (cell-1:4:26)\n    at outer (cell-1:2:3)\n    at cell-2:2:1"}
    assert run.stderr == run.error["traceback"] + "\n" and run.exit == 1 and run.stdout == ""


def test_causes_are_told(kernel):
    run = kernel.run("try { null.x } catch (e) { throw new Error('outer', {cause: e}) }")
    assert "Error: outer\n    at cell-1:1:34 {\n  [cause]: TypeError: Cannot read properties of null (reading 'x')\n      at cell-1:1:12\n}" == run.error["traceback"]


def test_syntax_errors_show_the_line(kernel):
    run = kernel.run("let ok = 1;\nconst q = ;")
    assert run.error["traceback"] == "cell-1:2\nconst q = ;\n          ^\nSyntaxError: Unexpected token ';'"
    assert run.error["name"] == "SyntaxError" and run.exit == 1


@pytest.mark.parametrize("value, text", [("'text'", "'text'"), ("5", "5"), ("null", "null"), ("undefined", "undefined"), ("{a: 1}", "{ a: 1 }")])
def test_anything_can_be_thrown(kernel, value, text):
    run = kernel.run(f"throw {value}")
    assert run.error == {"name": "Uncaught", "message": text, "traceback": f"Uncaught {text}"}


def test_what_cannot_be_shown_fails_its_cell_only(kernel):
    run = kernel.run("({ [Symbol.for('nodejs.util.inspect.custom')]() { throw new Error('mine') } })")
    assert run.exit == 1 and run.error["message"] == "mine"
    run = kernel.run("throw { get [Symbol.toStringTag]() { throw 1 } }")
    assert run.exit == 1 and run.error
    assert kernel.run("1").text == "1"


@pytest.mark.parametrize("code", ["setTimeout(() => { throw new Error('later') }, 5); await new Promise(() => {})", "Promise.reject(new Error('later')); await new Promise(r => setTimeout(r, 1000))"])
def test_an_uncaught_error_ends_the_cell_that_waits(kernel, code):
    run = kernel.run("kept = 1; " + code)
    assert run.exit == 1 and run.error["message"] == "later" and "later" in run.stderr
    assert kernel.run("kept").text == "1"


def test_an_unhandled_rejection_fails_the_cell_that_left_it(kernel):
    run = kernel.run("Promise.reject(new Error('floating')); 7")
    assert run.text == "7" and run.exit == 1 and run.error["message"] == "floating"


def test_errors_between_cells_are_printed_and_kill_nothing(kernel):
    kernel.run("setTimeout(() => { throw new Error('late one') }, 30); setTimeout(() => Promise.reject(new Error('late two')), 40); kept = 1")
    kernel.wait_for("late two", "stderr")
    assert kernel.run("kept").text == "1"


# ------------------------------------------------------------ exits

@pytest.mark.parametrize("code, exit", [
    ("process.exit(3)", 3), ("process.exit()", 0), ("process.exit(300)", 44), ("process.exitCode = 5; 1", 5), ("process.exitCode = 6; process.exit()", 6),
    ("try { process.exit(4) } catch { console.log('no') } finally { console.log('no') }", 4), ("(function f() { for (;;) process.exit(7) })()", 7),
    ("setTimeout(() => process.exit(8), 5); await new Promise(() => {})", 8), ("await 0; process.exit(9)", 9), ("process.on('exit', c => process.exit(c + 1)); process.exit(9)", 10)])
def test_exit_ends_the_cell_and_not_the_session(kernel, code, exit):
    kernel.run("kept = 1")
    run = kernel.run(code + "; console.log('no')" if "exitCode = 5" not in code else code)
    assert (run.exit, run.stdout, run.error, run.stderr) == (exit, "", None, "")
    assert kernel.run("kept").text == "1"


def test_exit_listeners_run_once(kernel):
    assert kernel.run("process.on('exit', code => console.log('bye', code)); process.exit(2)").stdout == "bye 2\n"
    assert kernel.run("process.exit(2)").stdout == ""


def test_a_killed_node_takes_its_runner_along(kernel):
    kernel.start("process.kill(process.pid, 'SIGKILL'); for (;;);")
    with pytest.raises(KernelDied):
        kernel.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("code, status", [("process.abort()", -signal.SIGABRT), ("process.reallyExit(5)", 5)])
def test_other_ends_are_told_as_they_are(kernel, code, status):
    kernel.start(code)
    with pytest.raises(KernelDied):
        kernel.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1]) == status


def test_the_end_of_the_socket_ends_it(kernel):
    kernel.sock.shutdown(2)
    assert os.waitstatus_to_exitcode(os.waitpid(kernel.pid, 0)[1]) == 0


# ------------------------------------------------------------ modules

IMPORTS = [
    ("import os from 'os'; typeof os.platform", "'function'"), ("import { join as j, sep } from 'node:path'\nj('a', sep)", "'a/'"), ("import * as p from \"path\"\ntypeof p.join", "'function'"),
    ("import fs, { readFileSync } from 'fs'; fs.readFileSync === readFileSync", "true"), ("import u, * as all from 'util'; u === all.default", "true"), ("import 'os'; 5", "5"),
    ("import {\n  join,\n  sep as s,\n} from 'path';\nimport os from 'os'\ns", "'/'"), ("(await import('fs/promises')).readFile.name", "'readFile'"),
    ("const load = () => import('path'); (await load()).sep", "'/'"), ("`${(await import('path')).sep}`", "'/'"), ("'import x from \"y\"'", "'import x from \"y\"'"), ("/import('x')/.source", '"import(\'x\')"'),
    ("// import x from 'y'\n5", "5"), ("/* import x from 'y' */ 5", "5"), ("`a\nimport x from 'y'`.length", "19"), ("({import: 1}).import", "1"), ("let a = 4, g = 2\na / 2 /g", "1"), ("const important = 3; important", "3")]


@pytest.mark.parametrize("code, text", IMPORTS)
def test_imports_work_in_cells(kernel, code, text):
    run = kernel.run(code)
    assert (run.text, run.stderr) == (text, "")


def test_lines_stay_where_they_are_behind_imports(kernel):
    assert "cell-1:5:7" in kernel.run("import {\n  join,\n  sep\n} from 'path'\nthrow new Error('x')").error["traceback"]


def test_files_of_the_working_folder_are_found(kernel, tmp_path):
    (tmp_path / "lib.js").write_text("exports.x = 'cjs'")
    (tmp_path / "lib.mjs").write_text("export const x = 'esm'; export default 5")
    (tmp_path / "data.json").write_text('{"k": 1}')
    package = tmp_path / "node_modules/pack"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "pack", "type": "module", "exports": {"import": "./index.js"}}')
    (package / "index.js").write_text("export const p = 'packed'")
    assert kernel.run("import d, { x } from './lib.mjs'; import { p } from 'pack'; [require('./lib').x, x, d, p, require('./data.json').k]").text == "[ 'cjs', 'esm', 5, 'packed', 1 ]"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/other.js").write_text("exports.y = 'sub'")
    kernel.run("process.chdir('sub')")
    assert kernel.run("require('./other').y").text == "'sub'"


def test_a_session_whose_folder_is_gone_goes_on_in_the_workspace(kernel, tmp_path):
    kernel.run("let kept = 1; require('fs').mkdirSync('sub'); process.chdir('sub'); require('fs').rmdirSync('../sub')")
    run = kernel.run("require('fs').writeFileSync('made', ''); console.log(process.cwd()); [require('fs').readdirSync('.'), kept]")
    assert run.stdout == f"{tmp_path}\n" and run.text == "[ [ 'made' ], 1 ]"
    assert run.stderr == f"[the working folder was removed; the session goes on in {tmp_path}]\n"
    assert kernel.run("kept").stderr == ""


def test_built_in_modules_are_there_by_name_and_can_be_redeclared(kernel):
    assert kernel.run("path.join('a', os.EOL.length + '')").text == "'a/1'"
    assert kernel.run("const fs = require('fs'); let path = 5; fs === require('node:fs')").text == "true"
    assert kernel.run("require.main === module").text == "true"


# ------------------------------------------------------------ what goes on between cells

def test_timers_and_servers_live_between_cells(kernel):
    kernel.run("n = 0; t = setInterval(() => n++, 5); server = require('http').createServer((q, s) => s.end('served')).listen(0, '127.0.0.1'); await new Promise(r => server.on('listening', r))")
    time.sleep(0.1)
    assert int(kernel.run("n").text) > 3
    assert kernel.run("await (await fetch(`http://127.0.0.1:${server.address().port}`)).text()").text == "'served'"


def test_programs_get_no_descriptor_of_ours(kernel):
    run = kernel.run("require('child_process').execFileSync('ls', ['/proc/self/fd']).toString()")
    assert run.text == "'0\\n1\\n2\\n3\\n'"


def test_there_is_nothing_to_read(kernel):
    assert kernel.run("require('fs').readFileSync(0).length").text == "0"
    assert kernel.run("let got = ''; for await (const part of process.stdin) got += part; got").text == "''"


# ------------------------------------------------------------ interrupts

@pytest.mark.parametrize("code", [
    "for (;;);", "(function f() { try { for (;;); } finally { for (;;); } })()", "await 0; for (;;);", "await new Promise(() => {})", "await new Promise(r => setTimeout(r, 60000))",
    "setTimeout(() => { for (;;); }, 1); await new Promise(() => {})", "setImmediate(() => { for (;;); }); await new Promise(() => {})", "process.nextTick(() => { for (;;); }); await new Promise(() => {})",
    "while (true) { await new Promise(r => setTimeout(r, 1)) }", "while (true) await 0", "const f = () => Promise.resolve().then(f); await f()", "await require('timers/promises').setTimeout(60000)", "/(a+)+b/.exec('a'.repeat(40))", "({ toString() { for (;;); } }) + ''",
    "({ [Symbol.for('nodejs.util.inspect.custom')]() { for (;;); } })", "new Array(1e6).fill(1).sort(() => { for (;;); })", "require('child_process').execSync('sleep 60')"])
def test_an_interrupt_stops_the_cell_and_state_is_kept(kernel, code):
    kernel.run("kept = 1")
    for _ in range(2):
        kernel.start(f"console.log('up'); {code}")
        kernel.wait_for("up")
        time.sleep(0.05)
        kernel.interrupt()
        run = kernel.finish(5)
        assert run.exit == 1 and run.error and run.stdout == "up\n"
        assert kernel.run("kept").text == "1"


def test_nothing_of_an_interrupted_cell_goes_on(kernel):
    kernel.start("n = 0; console.log('up'); while (true) { n++; await new Promise(r => setTimeout(r, 1)) }")
    kernel.wait_for("up")
    kernel.interrupt()
    kernel.finish(5)
    first = kernel.run("n").text
    time.sleep(0.1)
    assert kernel.run("n").text == first


def test_what_blocks_between_cells_is_stopped_by_the_interrupt_of_the_next(kernel):
    kernel.run("kept = 1; setTimeout(() => { console.log('stuck'); for (;;); }, 5)")
    kernel.wait_for("stuck")
    kernel.start("kept")
    time.sleep(0.1)
    kernel.interrupt()
    run = kernel.finish(5)
    assert run.text == "1" or run.error["name"] == "Interrupted"
    assert kernel.run("kept").text == "1"


def test_interrupts_at_any_moment_lose_no_cell(kernel):
    kernel.run("kept = 1")
    for n in range(100):
        kernel.start("console.log('a'); for (let i = 0; i < 1000; i++); await 0; ({a: 1})")
        time.sleep(n * 0.00005)
        kernel.interrupt()
        kernel.finish(10)
    assert kernel.run("kept").text == "1"


def test_interrupts_between_cells_do_nothing(kernel):
    kernel.run("kept = 1")
    for _ in range(3):
        kernel.interrupt()
    assert kernel.run("kept").text == "1"
