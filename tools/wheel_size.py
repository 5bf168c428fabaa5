"""Says what a pip installation would bring: name and size of its torch wheel, and whether it is a
build with CUDA. Reads the report of `pip install --dry-run --no-deps --report FILE torch…`.

    python wheel_size.py report.json
    torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl, 191 MB
"""
import json
import os
import sys
import urllib.parse
import urllib.request

PATIENCE_S = 10   # a size is not worth more


def bytes_of(url):
    """The size of what lies there; None if nobody tells."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return os.path.getsize(urllib.request.url2pathname(parts.path))
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, ValueError, TypeError):
        return None


def shown(size):
    if size is None:
        return "of unknown size"
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"


def describe(report):
    wheel = next(item for item in report["install"] if item["metadata"]["name"].lower() == "torch")
    url = wheel["download_info"]["url"]
    name = urllib.parse.unquote(urllib.parse.urlsplit(url).path.rsplit("/", 1)[-1])
    needs = wheel["metadata"].get("requires_dist") or []
    cuda = [need for need in needs if need.startswith(("nvidia-", "cuda-"))]
    text = f"{name}, {shown(bytes_of(url))}"
    if cuda:
        text += f", a CUDA build, which brings {len(cuda)} CUDA packages: several GB in all"
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(describe(json.load(file)))
