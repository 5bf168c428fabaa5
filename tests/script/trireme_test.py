"""The front door ./trireme, run in a copy with made-up apt-get, cmake, python3 and so on.

Nothing outside a temporary folder is touched. PATH holds nothing but the fakes and the few
plain tools that the script may take for granted, so a new dependency of it fails here.
"""

import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "trireme"
PLAIN_TOOLS = ("bash env dirname readlink mkdir rm cat grep tee tail tr awk flock sleep timeout").split()
PACKAGES = ("g++ cmake ninja-build ccache nlohmann-json3-dev libcli11-dev libtomlplusplus-dev "
            "libssl-dev python3 python3-venv").split()
MPI_PACKAGES = ["libopenmpi-dev", "openmpi-bin"]
TEST_PACKAGES = ["libgtest-dev", "clang-format-14", "clang-14", "libclang-rt-14-dev"]
ALL_PACKAGES = PACKAGES + MPI_PACKAGES + TEST_PACKAGES

# Each fake writes its call to $BOX/calls, one line a call.
LOG_CALL = 'echo "${0##*/} $*" >>"$BOX/calls"\n'
FAKES = {
    "id": 'echo "${FAKE_UID-0}"\n',
    "nproc": "echo 4\n",
    "dpkg-query": """
        code=0
        for package in "${@:4}"; do
          if grep -qxF "$package" "$BOX/installed"; then echo "installed $package"; else code=1; fi
        done
        exit $code\n""",
    "apt-get": LOG_CALL + """
        [[ $1 == install ]] && for word in "$@"; do echo "$word" >>"$BOX/installed"; done
        exit 0\n""",
    # What a python3 finds is in FAKE_TORCH: the version, or nothing.
    "python3": LOG_CALL + """
        if [[ $1 == -c && ${FAKE_TORCH-} ]]; then
          echo "a warning about numpy" >&2
          echo "$FAKE_TORCH $BOX/python torch"
        elif [[ "$1 $2" == "-m venv" ]]; then
          mkdir -p "$3/bin"
          cat "$BOX/venv_python" >"$3/bin/python"
          chmod +x "$3/bin/python"
        else
          exit 1
        fi\n""",
    "cmake": LOG_CALL + """
        if [[ $* == *--preset* ]]; then
          echo "TRIREME_TORCH:PATH=${!##-DTRIREME_TORCH=}" >build/$3/CMakeCache.txt
          echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >>build/$3/CMakeCache.txt
          echo >build/$3/build.ninja
          exit
        fi
        for i in {1..40}; do echo "[$i/40] Building file_$i"; done
        if [[ ${FAKE_BUILD-} == fails ]]; then echo "file_40: no such type"; exit 1; fi
        sleep "${FAKE_BUILD-0}"
        mkdir -p build/release/bin
        cat "$BOX/program" >build/release/bin/trireme
        chmod +x build/release/bin/trireme\n""",
    "ctest": LOG_CALL + """
        if [[ $* == *build/fuzz* ]]; then exit "${FAKE_FUZZ-0}"; fi
        while [[ $1 != --output-junit ]]; do shift; done
        echo '<testsuite tests="9" skipped="3">' >"$2"
        exit "${FAKE_CTEST-0}"\n""",
}
VENV_PYTHON = LOG_CALL + """
    torch=${0%/bin/python}/torch
    if [[ "$*" == "-m pip --version" ]]; then
      echo "pip $(cat "$BOX/pip_version") from somewhere"
    elif [[ $* == *"--upgrade pip>="* ]]; then
      # Who has a newer pip is in FAKE_NEW_PIP: the index of the arguments, the usual one, or nobody.
      [[ ${FAKE_NEW_PIP-} == given || ${FAKE_NEW_PIP-} == usual && $* == *"pip>=25.3" ]] || exit 1
      echo 26.3 >"$BOX/pip_version"
    elif [[ "$1 $2 $3" == "-m pip index" ]]; then
      case ${FAKE_INDEX-cpu} in
        cpu) echo "torch (2.13.0+cpu)"; echo "Available versions: 2.13.0+cpu, 2.13.0, 2.12.1" ;;
        cuda) echo "torch (2.13.0)"; echo "Available versions: 2.13.0" ;;
        *) exit 1 ;;
      esac
    elif [[ "$1 $2" == "-m pip" && $* == *--dry-run* ]]; then
      # What the index has is in FAKE_INDEX: cpu, cuda, or nothing.
      [[ $* == *+cpu* && ${FAKE_INDEX-cpu} == cpu || $* != *+cpu* && ${FAKE_INDEX-cpu} ]]
    elif [[ $1 == tools/wheel_size.py ]]; then
      case ${FAKE_INDEX-cpu} in
        cpu) echo "torch-2.13.0+cpu.whl, 191 MB" ;;
        *) echo "torch-2.13.0.whl, 888 MB, a CUDA build, several GB in all" ;;
      esac
    elif [[ "$1 $2" == "-m pip" ]]; then
      packages=${0%/bin/python}/lib/python3.11/site-packages
      for word in "$@"; do [[ $word == *==* ]] && mkdir -p "$packages/${word/==/-}.dist-info"; done
      mkdir -p "$torch/include/ATen/core" "$torch/lib"
      echo >"$torch/include/ATen/core/Tensor.h"
      echo >"$torch/lib/libtorch_cpu.so"
    elif [[ -d $torch ]]; then
      echo "2.13.0+cpu $torch"
    else
      exit 1
    fi\n"""
PROGRAM = '[[ $1 == called ]] && echo "called as $TRIREME_CALLED_AS"\necho "program got $* in ${PWD##*/} with ${TRIREME_PYTHON##*/}"\n'


class Box(unittest.TestCase):
    """A tree with the script in it, and a PATH of fakes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="a space ")
        self.addCleanup(folder.cleanup)
        self.box = Path(folder.name)
        self.tree = self.box / "my tree"
        self.bin = self.box / "bin"
        self.bin.mkdir()
        self.tree.mkdir()
        shutil.copy(SCRIPT, self.tree / "trireme")
        (self.tree / "CMakePresets.json").write_text("{}")
        (self.box / "installed").write_text("\n".join(ALL_PACKAGES) + "\n")
        (self.box / "pip_version").write_text("25.3")
        (self.box / "venv_python").write_text("#!/usr/bin/env bash\n" + VENV_PYTHON)
        (self.box / "program").write_text("#!/usr/bin/env bash\n" + PROGRAM)
        for tool in [*PLAIN_TOOLS, "chmod"]:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name, text in FAKES.items():
            (self.bin / name).write_text("#!/usr/bin/env bash\n" + text)
            (self.bin / name).chmod(0o755)
        self.make_libtorch(self.box / "python torch")

    def make_libtorch(self, folder):
        (folder / "include/ATen/core").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "include/ATen/core/Tensor.h").touch()
        (folder / "lib/libtorch_cpu.so").touch()
        return folder

    def environment(self, variables):
        return {"PATH": str(self.bin), "BOX": str(self.box), "FAKE_TORCH": "2.13.0+cpu", **variables}

    def run_script(self, *arguments, cwd=None, **variables):
        run = subprocess.run([self.tree / "trireme", *arguments], cwd=cwd or self.box,
                             env=self.environment(variables), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, timeout=50)
        return run.returncode, run.stdout, run.stderr

    def calls(self, name=""):
        path = self.box / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(name)]


class TriremeScript(Box):
    def uninstall(self, *packages):
        left = [package for package in ALL_PACKAGES if package not in packages]
        (self.box / "installed").write_text("\n".join(left) + "\n")

    # -- words

    def test_no_word_and_help_show_the_usage_and_touch_nothing(self):
        for arguments in ([], ["help"], ["--help"]):
            code, output, _ = self.run_script(*arguments)
            self.assertEqual(code, 0)
            self.assertIn("./trireme train", output)
        self.assertEqual(self.calls(), [])
        self.assertFalse((self.tree / ".deps").exists())

    def test_other_words_go_to_the_program_in_the_callers_folder(self):
        here = self.box / "elsewhere"
        here.mkdir()
        for word in ("train", "doctor"):
            code, output, _ = self.run_script(word, "a b", "--x", cwd=here)
            self.assertEqual((code, output),
                             (0, f"program got {word} a b --x in elsewhere with python3\n"))

    def test_the_program_knows_how_it_was_called(self):
        output = subprocess.check_output(["./trireme", "called"], text=True, cwd=self.tree,
                                         env=self.environment({}), stderr=subprocess.DEVNULL)
        self.assertTrue(output.startswith("called as ./trireme\n"), output)

    def test_it_works_through_a_link(self):
        (self.box / "link").symlink_to(self.tree / "trireme")
        output = subprocess.check_output([self.box / "link", "doctor"], text=True,
                                         env=self.environment({}), stderr=subprocess.DEVNULL)
        self.assertTrue(output.startswith("program got doctor"))

    def test_test_passes_its_arguments_to_ctest_and_counts_what_skipped(self):
        code, output, _ = self.run_script("test", "-L", "unit")
        self.assertEqual(code, 0)
        (call,) = self.calls("ctest")
        self.assertTrue(call.endswith(" -L unit"), call)
        self.assertIn("--output-on-failure -j2", call)
        self.assertIn("-LE slow|gpu", call)
        self.assertIn("Skipped tests: 3\n", output)

    def test_failing_tests_fail_the_call(self):
        code, output, _ = self.run_script("test", FAKE_CTEST="8")
        self.assertEqual(code, 1)
        self.assertIn("Skipped tests: 3\n", output)

    def test_test_runs_the_fuzzers_of_net_too(self):
        (self.bin / "clang++-14").symlink_to(shutil.which("true"))
        for fuzz, tests, expected in (("0", "0", 0), ("8", "0", 1), ("0", "8", 1)):
            (self.box / "calls").unlink(missing_ok=True)
            code, output, errors = self.run_script("test", FAKE_FUZZ=fuzz, FAKE_CTEST=tests)
            self.assertEqual(code, expected)
            self.assertTrue(self.calls("cmake --build build/fuzz")[0].endswith(" --target fuzz_net"))
            fuzzers, _ = self.calls("ctest")  # one that fails hides none of the other
            self.assertIn("/build/fuzz --output-on-failure -j2 --no-tests=error -L net", fuzzers)
            self.assertNotIn("skipped: the fuzzers", errors)

    def test_narrowed_tests_run_no_fuzzers(self):
        (self.bin / "clang++-14").symlink_to(shutil.which("true"))
        self.assertEqual(self.run_script("test", "-R", "net")[0], 0)
        self.assertEqual(len(self.calls("ctest")), 1)
        self.assertEqual(self.calls("cmake --build build/fuzz"), [])

    def test_without_clang_the_fuzzers_are_skipped_aloud(self):
        code, _, errors = self.run_script("test")
        self.assertEqual(code, 0)
        self.assertEqual(len(self.calls("ctest")), 1)
        self.assertIn("skipped: the fuzzers of net, which need clang++-14 (Debian: clang-14 "
                      "libclang-rt-14-dev)\n", errors)

    def test_with_ci_set_the_fuzzers_are_not_skipped(self):
        code, _, errors = self.run_script("test", CI="true")
        self.assertEqual(code, 1, errors)
        self.assertIn("the fuzzers of net need clang++-14 (Debian: clang-14 libclang-rt-14-dev), "
                      "and CI is set\n", errors)
        self.assertEqual(self.calls("ctest"), [])

    # -- system packages

    def test_only_missing_packages_are_installed_by_one_call_that_removes_nothing(self):
        self.uninstall("ccache", "libssl-dev")
        code, _, errors = self.run_script("doctor")
        self.assertEqual(code, 0)
        install = "apt-get install -y --no-install-recommends --no-remove ccache libssl-dev"
        self.assertEqual(self.calls("apt-get"), ["apt-get update", install])
        self.assertIn(f"apt-get update && {install}", errors)

    def test_nothing_is_installed_when_nothing_is_missing(self):
        self.assertEqual(self.run_script("doctor")[0], 0)
        self.assertEqual(self.calls("apt-get"), [])

    def test_without_root_it_prints_the_command_and_stops(self):
        self.uninstall("cmake")
        code, _, errors = self.run_script("test", FAKE_UID="1000")
        self.assertEqual(code, 2)
        self.assertIn("sudo apt-get update && sudo apt-get install -y --no-install-recommends "
                      "--no-remove cmake\n", errors)
        self.assertEqual(self.calls(), [])

    def test_a_word_asks_for_no_more_packages_than_it_needs(self):
        self.uninstall(*MPI_PACKAGES, *TEST_PACKAGES)
        for word in ("test", "check"):
            code, _, errors = self.run_script(word, FAKE_UID="1000")
            self.assertEqual(code, 2)
            self.assertIn(f"--no-remove {' '.join(MPI_PACKAGES + TEST_PACKAGES)}\n", errors)
        code, _, errors = self.run_script("bench", FAKE_UID="1000")
        self.assertEqual(code, 2)
        self.assertIn(f"--no-remove {' '.join(MPI_PACKAGES)}\n", errors)
        for word in ("train", "run", "doctor"):
            self.assertEqual(self.run_script(word, FAKE_UID="1000")[0], 0)

    def test_a_word_with_more_packages_configures_again(self):
        for word, times in (("train", 1), ("run", 1), ("bench", 2), ("test", 3), ("train", 3),
                            ("bench", 3)):
            self.assertEqual(self.run_script(word)[0], 0)
            self.assertEqual(len(self.calls("cmake --fresh")), times, word)

    def test_elsewhere_than_on_debian_the_tools_are_enough(self):
        (self.bin / "dpkg-query").unlink()
        code, _, errors = self.run_script("doctor")
        self.assertEqual(code, 2)  # there is no ninja and no g++ yet
        self.assertIn("needs what these packages hold: g++ cmake ninja-build", errors)
        self.assertIn("please install ninja", errors)
        for tool in ("ninja", "g++"):
            (self.bin / tool).symlink_to(shutil.which("true"))
        self.assertEqual(self.run_script("doctor")[0], 0)

    # -- libtorch

    def test_given_folder_wins(self):
        given = self.make_libtorch(self.box / "given torch")
        self.assertEqual(self.run_script("doctor", TRIREME_TORCH="given torch")[0], 0)
        self.assertIn(f"cmake --fresh --preset release -DTRIREME_TORCH={given}", self.calls())

    def test_given_folder_needs_no_python(self):
        self.make_libtorch(self.box / "given")
        code, output, _ = self.run_script("doctor", TRIREME_TORCH="given", FAKE_TORCH="")
        self.assertEqual((code, output), (0, f"program got doctor in {self.box.name} with \n"))
        self.assertEqual(self.calls("python3 -m"), [])

    def test_wrong_folder_is_refused(self):
        (self.box / "empty").mkdir()
        for wrong in ("empty", "/nowhere"):
            code, _, errors = self.run_script("doctor", TRIREME_TORCH=wrong)
            self.assertEqual(code, 2)
            self.assertIn("expected a folder with include/ATen and lib/libtorch_cpu.so", errors)
            self.assertIn(f"'{wrong}'", errors)
        self.assertEqual(self.calls("cmake"), [])

    def test_supported_python_torch_is_taken(self):
        for version in ("2.11.0", "2.12.1+cu126", "2.13.0+cpu"):
            shutil.rmtree(self.tree / ".deps", ignore_errors=True)
            self.assertEqual(self.run_script("doctor", FAKE_TORCH=version)[0], 0)
            self.assertEqual((self.tree / ".deps/torch").read_text().splitlines()[1:],
                             [str(self.box / "python torch"), str(self.bin / "python3")])

    def test_other_torch_is_passed_over_and_the_right_one_installed(self):
        for version in ("2.10.0", "2.1.0", "2.14.0", ""):
            shutil.rmtree(self.tree / ".deps", ignore_errors=True)
            shutil.rmtree(self.tree / "build", ignore_errors=True)
            (self.box / "calls").unlink(missing_ok=True)
            code, output, _ = self.run_script("doctor", FAKE_TORCH=version,
                                              TRIREME_PIP_ARGS="--index-url https://x --quiet")
            self.assertEqual(code, 0)
            self.assertIn("with python\n", output)
            self.assertIn("python -m pip install torch==2.13.0+cpu --index-url https://x --quiet",
                          self.calls("python -m"))
            venv = self.tree / ".deps/venv"
            self.assertIn(f"cmake --fresh --preset release -DTRIREME_TORCH={venv / 'torch'}",
                          self.calls())

    def test_tests_and_benches_get_their_peers_once(self):
        self.run_script("doctor", FAKE_TORCH="")
        self.assertFalse(any("transformers" in call for call in self.calls("python")))
        for word in ("test", "bench", "test"):
            code, _, errors = self.run_script(word, FAKE_TORCH="")
            self.assertEqual(code, 0, errors)
        peers = [call for call in self.calls("python") if "transformers==" in call]
        self.assertEqual(len(peers), 1, peers)
        self.assertIn("tokenizers==", peers[0])

    def test_somebody_elses_python_gets_no_peers(self):
        self.run_script("test")
        self.assertFalse(any("pip" in call for call in self.calls("python")))

    def test_existing_venv_is_used(self):
        self.run_script("doctor", FAKE_TORCH="")
        (self.tree / ".deps/torch").unlink()
        self.run_script("doctor", FAKE_TORCH="")
        self.assertEqual(len(self.calls("python -m pip install torch==")), 1)

    def test_cpu_build_is_taken_where_the_index_has_one(self):
        code, _, errors = self.run_script("doctor", FAKE_TORCH="", TRIREME_PIP_ARGS="--quiet")
        self.assertEqual(code, 0)
        self.assertEqual(self.calls("python -m pip install torch=="),
                         ["python -m pip install torch==2.13.0+cpu --quiet"])
        self.assertIn("to be fetched: torch-2.13.0+cpu.whl, 191 MB\n", errors)
        self.assertNotIn("CUDA", errors)

    def test_size_is_said_before_a_cuda_build_begins(self):
        code, _, errors = self.run_script("doctor", FAKE_TORCH="", FAKE_INDEX="cuda")
        self.assertEqual(code, 0)
        self.assertEqual(self.calls("python -m pip install torch=="),
                         ["python -m pip install torch==2.13.0"])
        size = errors.index("to be fetched: torch-2.13.0.whl, 888 MB, a CUDA build, several GB")
        advice = errors.index('TRIREME_PIP_ARGS="--extra-index-url https://download.pytorch.org/whl/cpu"')
        self.assertLess(size, advice)
        self.assertLess(advice, errors.index("trireme: pip install torch==2.13.0\n"))

    def test_an_index_that_does_not_answer_is_left_to_pip(self):
        code, _, errors = self.run_script("doctor", FAKE_TORCH="", FAKE_INDEX="")
        self.assertEqual(code, 0)
        self.assertEqual(self.calls("python -m pip install torch=="),
                         ["python -m pip install torch==2.13.0"])
        self.assertNotIn("to be fetched", errors)

    def test_old_pip_is_renewed_before_it_looks(self):
        for arguments, who in (("--quiet", "given"), ("--index-url https://x", "usual")):
            shutil.rmtree(self.tree / ".deps", ignore_errors=True)
            (self.box / "calls").unlink(missing_ok=True)
            (self.box / "pip_version").write_text("23.0.1")
            code, _, errors = self.run_script("doctor", FAKE_TORCH="", FAKE_NEW_PIP=who,
                                              TRIREME_PIP_ARGS=arguments)
            self.assertEqual(code, 0)
            self.assertIn("to be fetched: torch-2.13.0+cpu.whl, 191 MB\n", errors)
            installs = [call.split(" install ")[1] for call in self.calls("python -m pip install")]
            self.assertEqual(installs[0], f"--quiet --upgrade pip>=25.3 {arguments}")
            if who == "usual":  # an index for torch alone has no pip
                self.assertEqual(installs.pop(1), "--quiet --upgrade pip>=25.3")
            self.assertIn("--dry-run", installs[1])
            self.assertEqual(installs[2:], [f"torch==2.13.0+cpu {arguments}"])

    def test_new_pip_is_left_as_it_is(self):
        self.run_script("doctor", FAKE_TORCH="")
        self.assertFalse(any("--upgrade" in call for call in self.calls()))

    def test_pip_that_stays_old_fetches_nothing_beforehand(self):
        for index, wheel, said in (
                ("cpu", "torch==2.13.0+cpu", "torch==2.13.0+cpu, about 200 MB\n"),
                ("cuda", "torch==2.13.0", "a CUDA build of several GB\n"),
                ("", "torch==2.13.0", None)):
            shutil.rmtree(self.tree / ".deps", ignore_errors=True)
            (self.box / "calls").unlink(missing_ok=True)
            (self.box / "pip_version").write_text("25.2")
            code, _, errors = self.run_script("doctor", FAKE_TORCH="", FAKE_INDEX=index)
            self.assertEqual(code, 0)
            self.assertFalse(any("--dry-run" in call for call in self.calls()))
            self.assertEqual(self.calls("python -m pip install torch=="),
                             [f"python -m pip install {wheel}"])
            if said:
                self.assertLess(errors.index(said), errors.index("trireme: pip install"))
            else:
                self.assertNotIn("to be fetched", errors)

    def test_second_call_asks_no_python_and_configures_nothing(self):
        self.run_script("doctor")
        asked = len(self.calls("python3"))
        code, _, errors = self.run_script("doctor")
        self.assertEqual(code, 0)
        self.assertEqual(len(self.calls("python3")), asked)
        self.assertEqual(len(self.calls("cmake --fresh")), 1)

    def test_changed_or_vanished_libtorch_is_looked_for_again(self):
        self.run_script("doctor")
        given = self.make_libtorch(self.box / "given")
        self.run_script("doctor", TRIREME_TORCH=str(given))
        self.assertEqual(len(self.calls("cmake --fresh")), 2)
        shutil.rmtree(given)
        self.assertEqual(self.run_script("doctor")[0], 0)
        self.assertTrue(self.calls("cmake --fresh")[-1].endswith("/python torch"))
        shutil.rmtree(self.box / "python torch")
        self.assertEqual(self.run_script("doctor", FAKE_TORCH="")[0], 0)
        self.assertTrue(self.calls("cmake --fresh")[-1].endswith("/venv/torch"))

    def test_torch_replaced_in_place_is_looked_at_again(self):
        self.run_script("doctor")
        os.utime(self.box / "python torch/lib", (time.time() + 5, time.time() + 5))
        self.run_script("doctor", FAKE_TORCH="2.14.0")
        self.assertTrue(self.calls("cmake --fresh")[-1].endswith("/venv/torch"))

    # -- build

    def test_progress_comes_every_ten_percent_and_the_log_is_whole(self):
        _, _, errors = self.run_script("doctor")
        lines = [line for line in errors.splitlines() if line.endswith("%")]
        self.assertEqual(len(lines), 11)
        self.assertEqual(lines[-1], "trireme: build release: 100 %")
        self.assertIn("[17/40]", (self.tree / "build/release/log/build.log").read_text())

    def test_failed_build_shows_its_end_and_the_log(self):
        code, output, errors = self.run_script("doctor", FAKE_BUILD="fails")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("file_40: no such type", errors)
        self.assertIn("Building file_12\n", errors)  # 30 lines, the last of 41
        self.assertNotIn("Building file_11\n", errors)
        self.assertIn(str(self.tree / "build/release/log/build.log"), errors)

    def test_each_word_builds_only_what_it_runs(self):
        for word, targets in (("train", "trireme trireme-torch"),
                              ("sample", "trireme trireme-torch"),
                              ("run", "trireme"),
                              ("keys", "trireme"),
                              ("schedule", "trireme"),
                              ("doctor", "trireme trireme-torch"),
                              ("bench", "trireme trireme-torch trireme-bench"),
                              ("test", "all")):
            (self.box / "calls").unlink(missing_ok=True)
            self.run_script(word)
            (call,) = self.calls("cmake --build")
            self.assertEqual(call.split(" --target ")[1:], [targets], word)

    def test_jobs_do_not_exceed_the_cores(self):
        self.run_script("doctor")
        (call,) = self.calls("cmake --build")
        self.assertIn(int(call.split(" -j ")[1].split()[0]), range(1, 5))

    def test_moved_tree_is_configured_again(self):
        self.run_script("doctor")
        self.tree = self.tree.rename(self.box / "moved")
        self.assertEqual(self.run_script("doctor")[0], 0)
        self.assertEqual(len(self.calls("cmake --fresh")), 2)

    def test_two_calls_take_turns_at_the_build(self):
        first = subprocess.Popen([self.tree / "trireme", "doctor"], cwd=self.box,
                                 env=self.environment({"FAKE_BUILD": "1"}),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not self.calls("cmake --build") and time.monotonic() < deadline:
            time.sleep(0.02)
        code, output, errors = self.run_script("doctor")
        self.assertEqual(first.wait(timeout=30), 0)
        self.assertEqual(code, 0)
        self.assertIn("waiting for another", errors)
        self.assertIn("program got doctor", output)


if __name__ == "__main__":
    unittest.main()
