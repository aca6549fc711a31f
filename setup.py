"""Compiles the kernels. KAFKALOG_KERNELS=auto (default) falls back to plain Python and says why; `compiled` lets every
error through; `interpreted` compiles nothing. KAFKALOG_SANITIZE=1 builds for AddressSanitizer and UBSan;
tests/fuzz/sanitize.py does so in a copy of the tree."""

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("engine/kernels")
BUILD = runpy.run_path(str(PACKAGE / "build.py"))  # not imported: that would load the kernels that are about to be replaced
SHARED, STAMP = f"engine.kernels.{BUILD['SHARED']}", f"engine.kernels.{BUILD['STAMP']}"
MODE = os.environ.get("KAFKALOG_KERNELS", "auto")
# -fno-wrapv: Python's own flags define signed overflow, but kernels must not rely on it: other compilers have no such flag
SANITIZE = [
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-fno-wrapv", "-g",
] if os.environ.get("KAFKALOG_SANITIZE") else []
# what a kernel shares with others is a function of its own, and decodes a third slower where it is not inlined: it is large
INLINE = ["--param=max-inline-insns-single=3000", "--param=large-function-growth=1000"]
OPTIMIZE = ["-O0"] if SANITIZE else ["-O3", *INLINE]  # -O0 compiles three times as fast, and leaves every access in

_STAMP_SOURCE = """#include <Python.h>
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, NULL}};
PyMODINIT_FUNC PyInit_{name}(void)
{{
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "SOURCES", "{sources}") < 0) Py_CLEAR(module);
    return module;
}}
"""


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


def written_stamp():
    """A module that says what the kernels are compiled from: its source, written anew where that changed."""
    sources = {path.name: path.read_bytes() for path in PACKAGE.iterdir() if path.suffix in (".py", ".pxd")}
    path = Path("build/cython") / PACKAGE / f"{BUILD['STAMP']}.c"
    text = _STAMP_SOURCE.format(name=BUILD["STAMP"], sources=BUILD["sources_digest"](sources))
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(path)


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
            for name in BUILD["KERNELS"]
        ] + [
            Extension(name, [source], extra_compile_args=SANITIZE, extra_link_args=SANITIZE)
            for name, source in ((SHARED, shared), (STAMP, written_stamp()))
        ],
        build_dir="build/cython",
        shared_utility_qualified_name=SHARED,
        force=bool(SANITIZE),
        compiler_directives={"language_level": 3},
    )


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
