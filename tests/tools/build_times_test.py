"""What tools/build_times.py makes of a log."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "build_times.py"
OBJECT = "src/trireme/CMakeFiles/trireme_comm.dir/batches/trireme_comm_0.cpp.o"
TEST = "tests/CMakeFiles/comm_test.dir/batches/comm_test_0.cpp.o"

LOG = f"""# ninja log v5
0\t4000\t1\t{OBJECT}\tabc
0\t9000\t1\t{TEST}\tabc
4000\t4500\t1\tlib/libtrireme_comm.a\tabc
0\t2500\t2\t{OBJECT}\tabd
"""


def run(folder, *words):
    return subprocess.run([sys.executable, TOOL, folder, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)


class BuildTimes(unittest.TestCase):
    def test_sums_the_latest_steps_by_module(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, ".ninja_log").write_text(LOG)
            lines = run(folder, "--slowest", "1").stdout.splitlines()
        self.assertEqual([line.split(maxsplit=2) for line in lines[1:5]],
                         [["9.0", "1", "tests of comm"], ["2.5", "1", "comm"],
                          ["0.5", "1", "links and lists"], ["12.0", "3", "all"]])
        self.assertEqual(lines[-1].split(), ["9.0", TEST])

    def test_parts_count_to_their_module(self):
        log = "# ninja log v5\n" + "".join(
            f"0\t1000\t1\t{output}\tabc\n" for output in (
                "src/trireme/CMakeFiles/trireme_net.dir/a.cpp.o",
                "src/trireme/CMakeFiles/trireme_net_tls.dir/a.cpp.o",
                "src/trireme/CMakeFiles/trireme_comm_mpi.dir/a.cpp.o",
                "tests/CMakeFiles/tcp_test.dir/a.cpp.o",
                "tests/CMakeFiles/wire_test.dir/a.cpp.o",
                "tests/CMakeFiles/comm_test.dir/a.cpp.o",
                "src/trireme/CMakeFiles/trireme_pch.dir/cmake_pch.hxx.gch",
                "src/trireme/CMakeFiles/trireme_pch.dir/__/__/cmake/pch.cpp.o",
                "tests/CMakeFiles/trireme_test_pch.dir/cmake_pch.hxx.gch"))
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, ".ninja_log").write_text(log)
            lines = run(folder).stdout.splitlines()
        self.assertEqual({line.split(maxsplit=2)[2]: line.split()[1] for line in lines[1:6]},
                         {"net": "2", "comm": "1", "tests of comm": "3",
                          "precompiled headers": "3", "all": "9"})

    def test_says_that_there_is_no_log(self):
        with tempfile.TemporaryDirectory() as folder:
            result = run(folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("build first", result.stderr)


if __name__ == "__main__":
    unittest.main()
