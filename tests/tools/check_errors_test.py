"""Small bad sources, each with one error that tools/check_errors.py has to find."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_errors.py"
sys.path.insert(0, str(TOOL.parent))

from check_errors import Checker  # noqa: E402 (found once its folder is on the path)

FILE = "src/trireme/comm/group.cpp"


def check(source):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, FILE)
        path.parent.mkdir(parents=True)
        path.write_text(source)
        run = subprocess.run([sys.executable, TOOL, folder], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout.splitlines()


class CheckErrors(unittest.TestCase):
    def expect(self, source, line, *words):
        """The source has this one flaw."""
        code, lines = check(source)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(f"{FILE}:{line}: "), lines[0])
        self.assertIn("; ", lines[0])  # what is wrong; what to do
        for word in words:
            self.assertIn(word, lines[0])

    def expect_fine(self, source):
        self.assertEqual(check(source), (0, []))

    def test_a_whole_text_passes(self):
        self.expect_fine('throw InvalidArgument("[comm] expected 1, got 2; take 1");\n')
        self.expect_fine('throw InvalidArgument(text(\n    "[comm] expected ",\n    size(),\n'
                         '    ", got ", f(")"), \'"\', 10\'000,\n    "; take "\n    "all"));\n')
        self.expect_fine('throw PeerError(3, text("[comm] ", x, ": expected y, but not z; look at it"));\n')

    def test_no_remedy(self):
        self.expect('\n\nthrow NotSupported(text("[comm] expected 1, got ", 2));\n', 3, "remedy")

    def test_a_remedy_comes_after_what_was_expected(self):
        self.expect('throw Error(text("[comm] (a; b) expected 1, got ", 2));\n', 1, "remedy")

    def test_what_follows_the_call_is_no_remedy(self):
        self.expect('throw Error("[comm] expected 1, got 2");\nf("; do it");\n', 1, "remedy")

    def test_nothing_expected(self):
        self.expect('throw TimeoutError("[comm] too late; wait");\n', 1, "expected")

    def test_no_module(self):
        self.expect('throw Error("expected 1, got 2; take 1");\n', 1, "module")
        self.expect('throw Error("[sea] expected 1, got 2; take 1");\n', 1, "module")

    def test_wanted(self):
        self.expect('throw Error("[comm] expected 1, wanted 2; take 1");\n', 1, "wanted")

    def test_nothing_came(self):
        self.expect('throw Error("[comm] expected 1; take 1");\n', 1, "came instead", "got")
        # What it got must not stand before what it expected.
        self.expect('throw Error("[comm] got 2, expected 1; take 1");\n', 1, "came instead")
        self.expect('throw Error("[comm] expected a butter; forgotten");\n', 1, "came instead")

    def test_behind(self):
        self.expect('throw Error("[comm] expected 1 behind 2, got 3; take 1");\n', 1, "after")

    def test_callers_that_finish_a_text_say_what_came(self):
        source = ('void refuse(const char* what) {\n  throw Error(text("[comm] expected ", what, '
                  '"; go"));\n}\nvoid f() {\n  refuse("1, got 2");\n  refuse("3");\n}\n')
        for name in ("group.cpp", "group.h"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "src/trireme/comm", name)
                path.parent.mkdir(parents=True)
                path.write_text(source)
                problems = Checker(folder, {}, {f"comm/{name}": "refuse"}).run()
            self.assertEqual(len(problems), 1, problems)
            self.assertIn(f"{name}:6: a text that does not say what came", problems[0])

    def test_text_from_elsewhere(self):
        self.expect("throw Error(reason);\n", 1, "module")

    def test_exception_pointers(self):
        self.expect('p = std::make_exception_ptr(\n    trireme::PeerError(1, "[comm] gone"));\n',
                    1, "expected")

    def test_what_is_passed_on(self):
        self.expect_fine('throw InvalidArgument(text(error.what(), " in ", file));\n')

    def test_other_types_and_comments(self):
        self.expect_fine('throw InternalError("oh");\nthrow MyError("no");\n'
                         '// throw Error("x")\n/* throw Error("y") */\n')


if __name__ == "__main__":
    unittest.main()
