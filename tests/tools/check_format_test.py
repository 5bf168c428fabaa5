"""tools/check_format.py finds what is badly formatted, and mends it when asked."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_format.py"

spec = importlib.util.spec_from_file_location("check_format", TOOL)
tool = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
spec.loader.exec_module(tool)


@unittest.skipUnless(tool.clang_format(), "clang-format 14 is not here")
class CheckFormat(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copy(ROOT / ".clang-format", self.root)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, *arguments):
        run = subprocess.run([sys.executable, TOOL, *arguments, self.root],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.returncode, run.stdout

    def test_good_files_pass(self):
        self.write("src/a.cpp", "int main() {\n  return 0;\n}\n")
        self.write("tools/a.py", "x = 1\n")
        self.assertEqual(self.check(), (0, ""))

    def test_bad_source_is_found_and_mended(self):
        self.write("src/a.cpp", "int   main( ){return 0;}\n")
        code, output = self.check()
        self.assertEqual(code, 1)
        self.assertIn("a.cpp:1", output)
        self.assertIn("--fix", output)
        self.assertEqual(self.check("--fix")[0], 0)
        self.assertEqual(self.check(), (0, ""))

    def test_tabs_and_spaces_at_line_ends_are_found(self):
        for name in ("tools/a.py", "cmake/A.cmake", "trireme"):
            for text in ("x\n\ty\n", "x\ny \n"):
                self.write(name, text)
                code, output = self.check()
                self.assertEqual(code, 1)
                self.assertIn(f"{name}:2: ", output)
            self.write(name, "x\n")


if __name__ == "__main__":
    unittest.main()
