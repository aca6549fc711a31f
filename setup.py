"""Compiles the kernels. KAFKALOG_KERNELS=auto (default) falls back to plain Python and says why; `compiled` lets every
error through; `interpreted` compiles nothing. KAFKALOG_SANITIZE=1 builds for AddressSanitizer and UBSan;
tests/fuzz/sanitize.py does so in a copy of the tree."""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = (
    "checksum",
    "words",
    "scan",
    "decode",
    "text",
    "select",
    "legacy",
    "encode",
    "json_strings",
    "ndjson",
    "placement",
    "recovery",
    "producers",
    "verify",
    "blocks",
    "frames",
    "admission",
    "digest",
    "offset_map",
    "cleaning",
    "settling",
    "lines",
    "json_unescape",
    "json_lines",
    "gather",
    "rows",
)
SHARED = "engine.kernels._shared"  # what all kernels need of Cython, compiled once
MODE = os.environ.get("KAFKALOG_KERNELS", "auto")
# -fno-wrapv: Python's own flags define signed overflow, but kernels must not rely on it: other compilers have no such flag
SANITIZE = [
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-fno-wrapv", "-g",
] if os.environ.get("KAFKALOG_SANITIZE") else []
OPTIMIZE = ["-O0"] if SANITIZE else ["-O3"]  # -O0 compiles three times as fast, and leaves every access in


class BuildKernels(build_ext):
    """build_ext that may do without a compiler. All kernels are compiled or none: compiled ones call each other in C."""

    def run(self):
        self.parallel = self.parallel or os.cpu_count()
        try:
            super().run()
        except Exception as error:
            if MODE == "compiled":
                raise
            for extension in self.extensions:
                for built in (self.get_ext_fullpath(extension.name), self.get_ext_filename(extension.name)):
                    if os.path.exists(built):
                        os.remove(built)
            self.extensions = []  # nothing is left to be copied or packed
            print(f"kafkalog: kernels stay interpreted (slower, same results): {error}", file=sys.stderr)


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
    shared = f"build/cython/{SHARED.replace('.', '/')}.c"
    return cythonize(
        [
            Extension(f"engine.kernels.{name}", [f"engine/kernels/{name}.py"], extra_compile_args=OPTIMIZE + SANITIZE,
                      extra_link_args=SANITIZE)
            for name in KERNELS
        ] + [Extension(SHARED, [shared], extra_compile_args=SANITIZE, extra_link_args=SANITIZE)],
        build_dir="build/cython",
        shared_utility_qualified_name=SHARED,
        force=bool(SANITIZE),
        compiler_directives={"language_level": 3},
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
