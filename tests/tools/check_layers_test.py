"""Small bad trees, each with one violation that tools/check_layers.py has to find."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_layers.py"

GOOD = {
    "src/trireme/version.h": "#pragma once\n",
    "src/trireme/core/error.h": "#pragma once\n#include <string>\n",
    "src/trireme/core/error.cpp":
        '#include "trireme/core/error.h"\n\n#include "trireme/version.h"\n',
    "src/trireme/comm/group.h":
        '#pragma once\n#include <ATen/core/Tensor.h>\n#include "trireme/core/error.h"\n',
    "src/trireme/cli/main.cpp": '#include "trireme/core/error.h"\n',
    "src/trireme/CMakeLists.txt":
        "trireme_add_module(core\n  HEADERS error.h ../version.h  # all\n  SOURCES error.cpp)\n"
        "trireme_add_module(comm TORCH HEADERS group.h DEPENDS trireme::core)\n"
        "add_executable(trireme cli/main.cpp)\n",
    "tests/core/error_test.cpp": '#include "trireme/core/error.h"\n',
    "tests/comm/group_test.cpp": '#include "trireme/comm/group.h"\n',
    "tests/integration/all_test.cpp": "",
    "tests/CMakeLists.txt":
        "trireme_add_tests(core SOURCES error_test.cpp)\n"
        "trireme_add_tests(comm SOURCES group_test.cpp)\n",
    "examples/short.cpp": "int main() {}\n" * 120,
}


def check(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **changes}.items():
            if text is None:
                continue
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([sys.executable, TOOL, folder], stdout=subprocess.PIPE, text=True)
        return run.returncode, run.stdout.splitlines()


class CheckLayers(unittest.TestCase):
    def expect(self, changes, place, *words):
        """The tree with these changes has this one violation."""
        code, lines = check(changes)
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(code, 1)
        self.assertTrue(lines[0].startswith(place + ": "), lines[0])
        self.assertIn("; ", lines[0])  # what is wrong; what to do
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_good_tree_passes(self):
        self.assertEqual(check({}), (0, []))

    def test_include_against_the_layers(self):
        self.expect({"src/trireme/core/error.h":
                     '#pragma once\n\n#include "trireme/comm/group.h"\n'},
                    "src/trireme/core/error.h:3", "core must not include comm", "nothing")

    def test_modules_beside_one_another_stay_apart(self):
        self.expect({"src/trireme/dp/reducer.h": '#pragma once\n#include "trireme/pipe/p.h"\n',
                     "src/trireme/dp/CMakeLists.txt": "set(headers reducer.h)\n"},
                    "src/trireme/dp/reducer.h:2", "dp must not include pipe",
                    "core, comm, autograd, memory")

    def test_libtorch_in_a_module_without(self):
        for header in ("ATen/core/Tensor.h", "c10/util/Half.h", "torch/nn.h"):
            self.expect({"src/trireme/core/error.h": f"#pragma once\n#include <{header}>\n"},
                        "src/trireme/core/error.h:2", "must not include libtorch", header)

    def test_libtorch_in_the_program_that_starts_without(self):
        self.expect({"src/trireme/cli/main.cpp": "#include <c10/util/Half.h>\n"},
                    "src/trireme/cli/main.cpp:1", "program trireme", "libtorch")

    def test_module_with_libtorch_in_the_program_that_starts_without(self):
        self.expect({"src/trireme/cli/main.cpp": '#include "trireme/comm/group.h"\n'},
                    "src/trireme/cli/main.cpp:1", "program trireme", "comm/group.h")

    def test_file_of_the_other_program(self):
        self.expect({"src/trireme/cli/main.cpp": '#include "trireme/cli/bench.h"\n'},
                    "src/trireme/cli/main.cpp:1", "program trireme", "cli/bench.h")

    def test_unknown_module(self):
        self.expect({"src/trireme/utils/x.h":
                     '#pragma once\n#include <string>\n#include "trireme/core/error.h"\n',
                     "src/trireme/utils/CMakeLists.txt": "set(headers x.h)\n"},
                    "src/trireme/utils/x.h:2", "utils is not in the layer table")

    def test_umbrella_header_inside_a_module(self):
        self.expect({"src/trireme/core/error.h": '#pragma once\n#include "trireme/trireme.h"\n'},
                    "src/trireme/core/error.h:2", "umbrella")

    def test_relative_include(self):
        self.expect({"src/trireme/core/error.cpp": '#include "error.h"\n'},
                    "src/trireme/core/error.cpp:1", "not a full path")

    def test_relative_include_in_a_test(self):
        self.expect({"tests/core/error_test.cpp": '#include "../helper.h"\n'},
                    "tests/core/error_test.cpp:1", "not a full path")

    def test_project_header_in_angle_brackets(self):
        self.expect({"tests/core/error_test.cpp": "#include <trireme/core/error.h>\n"},
                    "tests/core/error_test.cpp:1", "file of this project")

    def test_variable_that_the_doctor_does_not_know(self):
        tree = {"src/trireme/cli/variables.cpp": 'constexpr const char* kName = "TRIREME_LOG";\n',
                "tests/cli/variables_test.cpp": "",
                "src/trireme/CMakeLists.txt": GOOD["src/trireme/CMakeLists.txt"].replace(
                    "cli/main.cpp", "cli/main.cpp cli/variables.cpp"),
                "tests/CMakeLists.txt": GOOD["tests/CMakeLists.txt"]
                + "trireme_add_tests(cli SOURCES variables_test.cpp)\n"}
        reader = GOOD["src/trireme/core/error.cpp"] + 'const char* x = std::getenv("TRIREME_{}");\n'
        self.assertEqual(
            check({**tree, "src/trireme/core/error.cpp": reader.format("LOG")}), (0, []))
        self.expect({**tree, "src/trireme/core/error.cpp": reader.format("SAIL")},
                    "src/trireme/core/error.cpp:4", "TRIREME_SAIL", "doctor")

    def test_header_without_pragma_once(self):
        self.expect({"src/trireme/core/error.h": "int x;\n"},
                    "src/trireme/core/error.h:1", "#pragma once")

    def test_whole_libtorch_in_a_header(self):
        self.expect({"src/trireme/comm/group.h": "#pragma once\n#include <torch/torch.h>\n"},
                    "src/trireme/comm/group.h:2", "all of libtorch")

    def test_long_files(self):
        for name in ("src/trireme/core/error.cpp", "tests/core/error_test.cpp",
                     "tools/long.py", "cmake/Long.cmake", "trireme", ".ci/run",
                     "bench/peers/long.py"):
            self.expect({name: "\n" * 601}, f"{name}:601", "601 lines", "600")
        self.assertEqual(check({"tools/long.py": "\n" * 600}), (0, []))

    def test_long_example(self):
        self.expect({"examples/long.cpp": "\n" * 121}, "examples/long.cpp:121", "at most 120")

    def test_source_without_a_test(self):
        self.expect({"tests/core/error_test.cpp": None},
                    "src/trireme/core/error.cpp:1", "write tests/core/error_test.cpp")

    def test_test_in_another_place_than_its_source(self):
        self.expect({"tests/comm/error_test.cpp": "",
                     "tests/comm/CMakeLists.txt": "set(tests error_test.cpp)\n"},
                    "tests/comm/error_test.cpp:1", "src/trireme/comm/error.cpp")

    def test_header_that_is_not_listed(self):
        self.expect({"src/trireme/comm/error.h": "#pragma once\n"},
                    "src/trireme/comm/error.h:1", "not listed", "HEADERS")

    def test_a_second_target_of_a_folder_lists_its_files(self):
        lists = GOOD["tests/CMakeLists.txt"]
        self.assertEqual(check({
            "src/trireme/comm/ring.h": "#pragma once\n",
            "src/trireme/CMakeLists.txt": GOOD["src/trireme/CMakeLists.txt"]
            + "trireme_add_module(comm_more FOLDER comm HEADERS ring.h)\n",
            "tests/comm/ring_test.cpp": "",
            "tests/CMakeLists.txt": lists
            + "trireme_add_tests(comm_more FOLDER comm SOURCES ring_test.cpp)\n"}), (0, []))

    def test_a_name_in_a_comment_does_not_list_it(self):
        self.expect({"src/trireme/comm/work.h": "#pragma once\n",
                     "src/trireme/comm/CMakeLists.txt": "# work.h comes later\nset(x)\n"},
                    "src/trireme/comm/work.h:1", "not listed")

    def test_test_that_is_not_listed(self):
        self.expect({"tests/CMakeLists.txt": "trireme_add_tests(comm SOURCES group_test.cpp)\n"},
                    "tests/core/error_test.cpp:1", "never runs")

    def test_fuzz_target_of_a_source_that_is_gone(self):
        lists = "trireme_add_fuzz(x\n  SOURCES core/error.cpp core/gone.cpp)\n"
        self.expect({"fuzz/CMakeLists.txt": lists},
                    "fuzz/CMakeLists.txt:2", "core/gone.cpp, which is not there")


if __name__ == "__main__":
    unittest.main()
