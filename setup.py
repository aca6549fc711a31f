"""Compiles the kernels. KAFKALOG_KERNELS=auto (default) falls back to plain Python and says why; `compiled` lets every
error through; `interpreted` compiles nothing. KAFKALOG_SANITIZE=1 builds for AddressSanitizer and UBSan."""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = ("checksum", "words", "scan", "decode", "text", "select", "legacy", "encode", "ndjson")
MODE = os.environ.get("KAFKALOG_KERNELS", "auto")
SANITIZE = ["-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g"] if os.environ.get("KAFKALOG_SANITIZE") else []
OPTIMIZE = ["-O1"] if SANITIZE else ["-O3"]


class BuildKernels(build_ext):
    """build_ext that may do without a compiler."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            if MODE == "compiled":
                raise
            print(f"kafkalog: kernels stay interpreted (slower, same results): {error}", file=sys.stderr)

    def build_extension(self, ext):
        try:
            super().build_extension(ext)
        except Exception as error:
            if MODE == "compiled":
                raise
            print(f"kafkalog: kernel {ext.name} stays interpreted (slower, same results): {error}", file=sys.stderr)


def extensions():
    if MODE == "interpreted":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError as error:
        if MODE == "compiled":
            raise
        print(f"kafkalog: kernels stay interpreted (slower, same results): {error}", file=sys.stderr)
        return []
    present = [name for name in KERNELS if os.path.exists(f"engine/kernels/{name}.py")]
    return cythonize(
        [
            Extension(f"engine.kernels.{name}", [f"engine/kernels/{name}.py"], extra_compile_args=OPTIMIZE + SANITIZE,
                      extra_link_args=SANITIZE)
            for name in present
        ],
        build_dir="build/cython",
        compiler_directives={"boundscheck": bool(SANITIZE), "language_level": 3},
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
