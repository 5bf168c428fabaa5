"""tools/wheel_size.py: what is said of a wheel before it is fetched."""

import http.server
import importlib.util
import pathlib
import tempfile
import threading
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wheel_size.py"
spec = importlib.util.spec_from_file_location("wheel_size", TOOL)
wheel_size = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wheel_size)


def report(url, needs=None):
    torch = {"metadata": {"name": "torch", "version": "2.13.0", "requires_dist": needs},
             "download_info": {"url": url}}
    return {"version": "1", "install": [torch]}


class Index(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200)
        if "unknown" not in self.path:
            self.send_header("Content-Length", "887654321")
        self.end_headers()

    def log_message(self, *_):
        pass


class WheelSize(unittest.TestCase):
    def test_a_file_is_looked_at(self):
        with tempfile.TemporaryDirectory(prefix="a space ") as folder:
            wheel = pathlib.Path(folder) / "torch-2.13.0+cpu-cp311.whl"
            wheel.write_bytes(bytes(3_400_000))
            self.assertEqual(wheel_size.describe(report(wheel.as_uri(), ["filelock"])),
                             "torch-2.13.0+cpu-cp311.whl, 3 MB")

    def test_an_index_is_asked_and_cuda_is_named(self):
        server = http.server.HTTPServer(("127.0.0.1", 0), Index)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        base = f"http://127.0.0.1:{server.server_port}"
        needs = ["filelock", "nvidia-cublas-cu12==12; platform_system == 'Linux'", "nvidia-nccl-cu12"]
        self.assertEqual(
            wheel_size.describe(report(base + "/torch-2.13.0-cp311.whl", needs)),
            "torch-2.13.0-cp311.whl, 888 MB, a CUDA build, which brings 2 CUDA packages: "
            "several GB in all")
        self.assertEqual(wheel_size.describe(report(base + "/unknown.whl")),
                         "unknown.whl, of unknown size")

    def test_nobody_there_is_no_failure(self):
        self.assertEqual(wheel_size.describe(report("http://127.0.0.1:9/torch.whl")),
                         "torch.whl, of unknown size")

    def test_sizes_are_for_people(self):
        self.assertEqual(wheel_size.shown(2_560_000_000), "2.6 GB")
        self.assertEqual(wheel_size.shown(12), "1 MB")


if __name__ == "__main__":
    unittest.main()
