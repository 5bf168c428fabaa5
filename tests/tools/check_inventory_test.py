"""Small inventories, each with one violation that tools/check_inventory.py has to find."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_inventory.py"

HEAD = "area,upstream test,ours,reason\n"
GOOD = HEAD + (
    "rpc,a_test.py::A::test_one,tests/a_test.cpp,\n"
    "rpc,a_test.py::A::test_two,tests/a_test.cpp tests/b_test.cpp,in part\n"
    'rpc,a_test.py::A::test_three,,"not built yet, as said"\n'
    "ddp,a_test.py::A::test_one,,another area\n")


def check(inventory, areas=None):
    with tempfile.TemporaryDirectory() as folder:
        tests = Path(folder, "tests")
        tests.mkdir()
        for name in ("a_test.cpp", "b_test.cpp"):
            (tests / name).write_text("")
        if inventory is not None:
            (tests / "inventory.csv").write_text(inventory)
        if areas is not None:
            (tests / "inventory_areas.csv").write_text("area,tests\n" + areas)
        run = subprocess.run([sys.executable, TOOL, folder], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout.splitlines()


class CheckInventory(unittest.TestCase):
    def expect(self, inventory, line, *words):
        """The inventory has this one violation."""
        code, lines = check(inventory)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(f"tests/inventory.csv:{line}: "), lines[0])
        self.assertIn("; ", lines[0])  # what is wrong; what to do
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_good_inventory_passes(self):
        self.assertEqual(check(GOOD), (0, []))

    def test_neither_test_nor_reason(self):
        self.expect(GOOD + "rpc,test_four,,\n", 6, "test_four", "neither")
        self.expect(GOOD + "rpc,test_four, , \n", 6, "neither")

    def test_a_file_that_is_not_there(self):
        self.expect(GOOD + "rpc,test_four,tests/a_test.cpp tests/c_test.cpp,\n", 6, "tests/c_test.cpp")
        self.expect(GOOD + "rpc,test_four,tests,\n", 6, "tests is not there")

    def test_a_row_twice(self):
        self.expect(GOOD + "rpc,a_test.py::A::test_two,,again\n", 6, "on line 3 too")

    def test_columns(self):
        self.expect(GOOD + "rpc,test_four,tests/a_test.cpp\n", 6, "3 columns")
        self.expect(GOOD + "rpc,test_four,,because of this, and of that\n", 6, "5 columns")
        self.expect(GOOD + "\n", 6, "0 columns")

    def test_no_name(self):
        self.expect(GOOD + "rpc,,,why\n", 6, "no name")

    def test_the_head(self):
        self.expect(GOOD.replace("upstream test", "test"), 1, "columns", HEAD.strip())

    def test_rows_that_are_lost(self):
        self.assertEqual(check(GOOD, "rpc,3\nddp,1\n"), (0, []))
        for areas, words in (("rpc,4\nddp,1\n", "rpc has 3 rows, 4 are wanted"),
                             ("rpc,3\n", "ddp has 1 rows, 0 are wanted"),
                             ("rpc,3\nddp,1\npipe,2\n", "pipe has 0 rows, 2 are wanted")):
            code, lines = check(GOOD, areas)
            self.assertEqual((code, len(lines)), (1, 1), lines)
            self.assertIn(words, lines[0])

    def test_nothing_there(self):
        self.expect(None, 1, "is not there")
        self.expect(HEAD, 1, "no rows")
        self.expect("", 1, "no rows")


if __name__ == "__main__":
    unittest.main()
