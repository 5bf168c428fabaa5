"""The front door ./trireme with a real pip and two small indexes of this machine: one with what the
public index has, one with the CPU build alone. The wheels hold next to nothing."""

import base64
import hashlib
import http.server
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import unittest
import urllib.parse
import zipfile
from pathlib import Path

import trireme_test

CPU = "torch-2.13.0+cpu-py3-none-any.whl"
CUDA = "torch-2.13.0-py3-none-any.whl"
LIBTORCH = ("torch/include/ATen/core/Tensor.h", "torch/lib/libtorch_cpu.so")

# Any python3 but for torch, which it does not have.
PYTHON3 = """#!/usr/bin/env bash
    [[ $1 == -c ]] && exit 1
    exec "$REAL_PYTHON" "$@"\n"""


def metadata(name, version, needs=()):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    return "\n".join(lines + [f"Requires-Dist: {need}" for need in needs]) + "\n"


def write_wheel(folder, name, version, needs=(), files=()):
    """A wheel, and beside it its metadata, as indexes serve them."""
    info = f"{name}-{version}.dist-info"
    content = {f"{info}/METADATA": metadata(name, version, needs),
               f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
               f"{name}/__init__.py": f'__version__ = "{version}"\n', **dict.fromkeys(files, "")}
    digests = {path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
               for path, text in content.items()}
    content[f"{info}/RECORD"] = "".join(
        f"{path},sha256={digest.decode().rstrip('=')},\n" for path, digest in digests.items())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in content.items():
            wheel.writestr(inside, text)
    path.with_name(path.name + ".metadata").write_text(content[f"{info}/METADATA"])


class Index(http.server.SimpleHTTPRequestHandler):
    """INDEX/PACKAGE/ lists the files of that folder."""

    def do_GET(self):
        self.server.fetched.append(urllib.parse.unquote(self.path.rsplit("/", 1)[-1]))
        super().do_GET()

    def list_directory(self, path):
        links = "".join(
            f'<a href="{urllib.parse.quote(wheel.name)}" data-core-metadata="true" '
            f'data-dist-info-metadata="true">{wheel.name}</a>\n'
            for wheel in sorted(Path(path).glob("*.whl")))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<!DOCTYPE html><html><body>{links}</body></html>".encode())

    def log_message(self, *_):
        pass


@unittest.skipUnless(importlib.util.find_spec("ensurepip"), "this python3 makes no environments")
class PipTest(trireme_test.Box):
    def setUp(self):
        super().setUp()
        public, cpu = self.box / "www/simple", self.box / "www/cpu"
        write_wheel(public / "torch", "torch", "2.13.0", ["nvidia-cublas"], LIBTORCH)
        write_wheel(public / "nvidia-cublas", "nvidia_cublas", "13.0")
        for peer in ("transformers==5.22.2", "tokenizers==0.23.3"):
            write_wheel(public / peer.split("==")[0], *peer.split("=="))
        write_wheel(cpu / "torch", "torch", "2.13.0+cpu", (), LIBTORCH)
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0),
            lambda *arguments: Index(*arguments, directory=str(self.box / "www")))
        self.server.fetched = []
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        (self.bin / "python3").write_text(PYTHON3)
        (self.tree / "tools").mkdir()
        shutil.copy(trireme_test.SCRIPT.parent / "tools/wheel_size.py", self.tree / "tools")

    def url(self, index):
        return f"http://127.0.0.1:{self.server.server_port}/{index}"

    def environment(self, variables):
        return {**super().environment(variables), "REAL_PYTHON": sys.executable,
                "HOME": str(self.box), "PIP_CONFIG_FILE": os.devnull,
                "PIP_INDEX_URL": self.url("simple/"), "PIP_NO_CACHE_DIR": "1",
                "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_RETRIES": "0"}

    def installed(self):
        return {path.name for path in (self.tree / ".deps/venv").glob("lib/*/site-packages/*.dist-info")}

    def test_a_wheel_is_fetched_once_and_only_after_its_size_was_said(self):
        code, _, errors = self.run_script("doctor")
        self.assertEqual(code, 0, errors)
        # Without a cache: a look that fetches would be a second time.
        self.assertEqual(self.server.fetched.count(CUDA), 1, self.server.fetched)
        self.assertLess(errors.index("trireme: to be fetched: torch"),
                        errors.index("trireme: pip install torch==2.13.0\n"))
        self.assertIn('TRIREME_PIP_ARGS="--extra-index-url ', errors)

    def test_the_advice_brings_the_cpu_build_and_leaves_the_peers_where_they_are(self):
        code, _, errors = self.run_script(
            "test", TRIREME_PIP_ARGS=f"--extra-index-url {self.url('cpu/')}")
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.server.fetched.count(CPU), 1, self.server.fetched)
        self.assertNotIn(CUDA, self.server.fetched)
        self.assertNotIn("CUDA", errors)
        self.assertLessEqual({"torch-2.13.0+cpu.dist-info", "transformers-5.22.2.dist-info",
                              "tokenizers-0.23.3.dist-info"}, self.installed())
        self.assertNotIn("nvidia_cublas-13.0.dist-info", self.installed())
        # Nor would it have been another without "+cpu": by version, that build comes first.
        self.server.fetched.clear()
        subprocess.run([self.tree / ".deps/venv/bin/python", "-m", "pip", "install", "--quiet",
                        "--force-reinstall", "torch==2.13.0", "--extra-index-url", self.url("cpu/")],
                       env=self.environment({}), check=True, timeout=50)
        self.assertIn(CPU, self.server.fetched)
        self.assertNotIn(CUDA, self.server.fetched)


if __name__ == "__main__":
    unittest.main()
