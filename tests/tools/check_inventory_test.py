"""Small inventories, each with one violation that tools/check_inventory.py has to find."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_inventory.py"

HEAD = "area,upstream test,ours,reason\n"
GOOD = HEAD + (
    "rpc,a_test.py::A::test_one,Calls.ComeBack,\n"
    "rpc,a_test.py::A::test_two,Calls.Fail tests/peer.py,in part\n"
    'rpc,a_test.py::A::test_three,,"not built yet, as said"\n'
    "ddp,a_test.py::A::test_one,,another area\n")

# What the build writes for a test program.
LISTING = """Running main()
Calls.
  ComeBack
  Fail
  DISABLED_Never
Sizes/Tables.  # TypeParam = int
  Grow/0  # GetParam() = 1
  Grow/1  # GetParam() = 2
Quiet.
  IsNotRun
"""
ENTRIES = ("add_test([==[rpc.Calls]==] [==[rpc_test]==] [==[--gtest_filter=Calls.*]==])\n"
           "add_test([==[rpc.Sizes]==] [==[rpc_test]==] [==[--gtest_filter=Sizes/Tables.*]==])\n")


# What CMake writes for scripts, here below the folder of the programs.
SCRIPTS = """add_test([=[peer.calls]=] "/usr/bin/python3" "-B" "{root}/tests/peer.py" "{root}/bin/a")
set_tests_properties([=[peer.calls]=] PROPERTIES  LABELS "peer" _BACKTRACE "{root}/tests/old.py;9")
"""


def check(inventory, areas=None, programs=(), listing=LISTING, scripts=SCRIPTS):
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder, "tests")
        tests.mkdir()
        (tests / "peer.py").write_text("")
        (tests / "old.py").write_text("")
        (tests / "a_test.cpp").write_text("")
        (tests / "below").mkdir()
        (tests / "below/CTestTestfile.cmake").write_text(scripts.format(root=folder))
        if inventory is not None:
            (tests / "inventory.csv").write_text(inventory)
        if areas is not None:
            (tests / "inventory_areas.csv").write_text("area,tests\n" + areas)
        (tests / "rpc_suites.cmake").write_text(ENTRIES)
        (tests / "rpc_tests.txt").write_text(listing)
        command = [sys.executable, TOOL, "--root", folder]
        if programs:
            command += ["--tests", tests, "--programs", *programs]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout.splitlines()


class CheckInventory(unittest.TestCase):
    def expect(self, inventory, line, *words, **more):
        """The inventory has this one violation."""
        code, lines = check(inventory, **more)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(f"tests/inventory.csv:{line}: "), lines[0])
        self.assertIn("; ", lines[0])  # what is wrong; what to do
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_good_inventory_passes(self):
        self.assertEqual(check(GOOD), (0, []))
        self.assertEqual(check(GOOD, programs=["rpc"]), (0, []))

    def test_neither_test_nor_reason(self):
        self.expect(GOOD + "rpc,test_four,,\n", 6, "test_four", "neither")
        self.expect(GOOD + "rpc,test_four, , \n", 6, "neither")

    def test_a_script_that_is_not_there(self):
        self.expect(GOOD + "rpc,test_four,tests/peer.py tests/c.py,\n", 6, "tests/c.py")

    def test_a_script_that_ctest_does_not_run(self):
        row = GOOD + "rpc,test_four,tests/old.py,\n"
        self.assertEqual(check(row), (0, []))  # nobody has looked
        self.expect(row, 6, "tests/old.py", "ctest", programs=["rpc"])
        self.expect(GOOD, 3, "tests/peer.py", "ctest", programs=["rpc"], scripts="")
        # Known without the programs.
        self.expect(GOOD, 3, "tests/peer.py", "ctest", programs=["comm"], scripts="")

    def test_a_file_is_no_test(self):
        self.expect(GOOD + "rpc,test_four,tests/a_test.cpp,\n", 6, "Suite.Name")
        self.expect(GOOD + "rpc,test_four,Calls,\n", 6, "Suite.Name")

    def test_a_test_that_was_renamed_or_deleted(self):
        row = GOOD + "rpc,test_four,Calls.ComeBack Calls.WasRenamed,\n"
        self.assertEqual(check(row), (0, []))  # nobody has looked
        self.expect(row, 6, "Calls.WasRenamed", "ctest", programs=["rpc"])
        self.expect(GOOD, 2, "Calls.ComeBack", programs=["rpc"],
                    listing=LISTING.replace("  ComeBack\n", ""))

    def test_a_test_that_ctest_does_not_run(self):
        self.expect(GOOD + "rpc,test_four,Quiet.IsNotRun,\n", 6, "Quiet.IsNotRun",
                    programs=["rpc"])
        self.expect(GOOD + "rpc,test_four,Calls.DISABLED_Never,\n", 6, "Never",
                    programs=["rpc"])

    def test_names_with_parameters(self):
        row = GOOD + "rpc,test_four,Tables.Grow,\n"
        self.assertEqual(check(row, programs=["rpc"]), (0, []))

    def test_programs_that_are_not_built(self):
        code, lines = check(GOOD, programs=["rpc", "comm"])
        self.assertEqual((code, len(lines)), (77, 1), lines)
        self.assertIn("comm", lines[0])
        # What can be seen without them is still an error.
        self.expect(GOOD + "rpc,test_four,,\n", 6, "neither", programs=["comm"])

    def test_a_row_twice(self):
        self.expect(GOOD + "rpc,a_test.py::A::test_two,,again\n", 6, "on line 3 too")

    def test_columns(self):
        self.expect(GOOD + "rpc,test_four,Calls.Fail\n", 6, "got 3")
        self.expect(GOOD + "rpc,test_four,,because of this, and of that\n", 6, "got 5")
        self.expect(GOOD + "\n", 6, "got 0")

    def test_no_name(self):
        self.expect(GOOD + "rpc,,,why\n", 6, "no name")

    def test_the_head(self):
        self.expect(GOOD.replace("upstream test", "test"), 1, "columns", HEAD.strip())

    def test_rows_that_are_lost(self):
        self.assertEqual(check(GOOD, "rpc,3\nddp,1\n"), (0, []))
        for areas, words in (("rpc,4\nddp,1\n", "expected 4 rows of rpc, got 3"),
                             ("rpc,3\n", "expected 0 rows of ddp, got 1"),
                             ("rpc,3\nddp,1\npipe,2\n", "expected 2 rows of pipe, got 0")):
            code, lines = check(GOOD, areas)
            self.assertEqual((code, len(lines)), (1, 1), lines)
            self.assertIn(words, lines[0])

    def test_nothing_there(self):
        self.expect(None, 1, "is not there")
        self.expect(HEAD, 1, "no rows")
        self.expect("", 1, "no rows")


if __name__ == "__main__":
    unittest.main()
