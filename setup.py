"""Compiles the kernels, with CPython's limited API: what is compiled with one version runs with all from 3.11 on.

KAFKALOG_SANITIZE=1 builds for AddressSanitizer and UBSan; tests/fuzz/sanitize.py does so in a copy of the tree."""

import multiprocessing
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILING = {"build", "build_ext", "bdist_wheel", "editable_wheel", "install", "develop"}  # commands that need the kernels

PACKAGE = Path("engine/kernels")
BUILD = runpy.run_path(str(PACKAGE / "build.py"))  # not imported: that would load the kernels that are about to be replaced
SHARED, STAMP = f"engine.kernels.{BUILD['SHARED']}", f"engine.kernels.{BUILD['STAMP']}"
# -fno-wrapv: Python's own flags define signed overflow, but kernels must not rely on it: other compilers have no such flag
SANITIZE = [
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-fno-wrapv", "-g",
] if os.environ.get("KAFKALOG_SANITIZE") else []
COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def is_clang():
    """Is the compiler clang, or one that is made of it, such as zig's?"""
    try:
        macros = subprocess.run([*COMPILER, "-dM", "-E", "-xc", "/dev/null"], capture_output=True, check=False).stdout
    except OSError:
        return False  # refuse_without_compiler says so
    return b"__clang__" in macros


# what a kernel shares with others is a function of its own, and decodes a third slower where it is not inlined: it is large
INLINE = {
    False: ["--param=max-inline-insns-single=3000", "--param=large-function-growth=1000"],
    True: ["-mllvm", "-inline-threshold=3000"],
}

LIMITED = {"define_macros": [("Py_LIMITED_API", "0x030B0000")], "py_limited_api": True}  # that of CPython 3.11

_STAMP_SOURCE = """#include <Python.h>
static struct PyModuleDef definition = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, NULL}};
PyMODINIT_FUNC PyInit_{name}(void)
{{
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddStringConstant(module, "SOURCES", "{sources}") < 0) Py_CLEAR(module);
    return module;
}}
"""


def refuse_without_compiler():
    """End with one sentence where no kernel can be compiled, before pip resolves dependencies or setuptools copies files."""
    include = sysconfig.get_path("include")
    if shutil.which(COMPILER[0]) is None:
        problem = f"there is no C compiler ({COMPILER[0]})"
    elif not Path(include, "Python.h").exists():
        problem = f"Python's header files are not installed (no Python.h in {include})"
    else:
        words = [*COMPILER, "-E", f"-I{include}", "-xc", "-"]
        if subprocess.run(words, input=b"#include <Python.h>\n", capture_output=True, check=False).returncode == 0:
            return
        problem = f"the C compiler ({COMPILER[0]}) does not compile an #include <Python.h>"
    sys.exit(f"kafkalog: {problem}: install build-essential and python3-dev (Fedora: gcc and python3-devel), or a wheel")


def write_if_changed(path, text):
    """What has an old time is not compiled again."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write_literals():
    """The .pxd files of the modules that declare numbers."""
    sys.path.insert(0, os.getcwd())  # they import engine.formats
    for name in BUILD["NUMBERS"]:
        declared = runpy.run_path(str(PACKAGE / f"{name}.py"))
        write_if_changed(PACKAGE / f"{name}.pxd", BUILD["literals"](name, declared))


def pxd_changed():
    """Was a .pxd changed after a kernel was translated? Cython does not look for those that `from cython.cimports` names."""
    newest = max(path.stat().st_mtime for path in PACKAGE.glob("*.pxd"))
    made = [Path("build/cython") / PACKAGE / f"{name}.c" for name in BUILD["KERNELS"]]
    return any(path.exists() and path.stat().st_mtime < newest for path in made)


def written_stamp():
    """A module that says what the kernels are compiled from: the path of its source."""
    sources = {path.name: path.read_bytes() for path in PACKAGE.iterdir() if path.suffix in (".py", ".pxd")}
    path = Path("build/cython") / PACKAGE / f"{BUILD['STAMP']}.c"
    text = _STAMP_SOURCE.format(name=BUILD["STAMP"], sources=BUILD["sources_digest"](sources))
    write_if_changed(path, text)
    return str(path)


def extensions():
    from Cython.Build import cythonize

    write_literals()
    # -O0 compiles three times as fast, and leaves every access in
    optimize = ["-O0"] if SANITIZE else ["-O3", *INLINE[is_clang()]]
    shared = f"build/cython/{SHARED.replace('.', '/')}.c"
    return cythonize(
        [
            Extension(f"engine.kernels.{name}", [f"engine/kernels/{name}.py"], extra_compile_args=optimize + SANITIZE,
                      extra_link_args=SANITIZE, **LIMITED)
            for name in BUILD["KERNELS"]
        ] + [
            Extension(name, [source], extra_compile_args=SANITIZE, extra_link_args=SANITIZE, **LIMITED)
            for name, source in ((SHARED, shared), (STAMP, written_stamp()))
        ],
        build_dir="build/cython",
        nthreads=(os.cpu_count() or 1) if multiprocessing.get_start_method() == "fork" else 0,  # others run this file again
        shared_utility_qualified_name=SHARED,
        force=bool(SANITIZE) or pxd_changed(),
        # initializedcheck: a buffer of an object that was never set has no bytes, which kernels refuse as too few
        compiler_directives={"language_level": 3, "initializedcheck": False},
    )


class BuildKernels(build_ext):
    """Keeps objects in build/ for an editable install too, so that `build_ext --inplace` does not compile them again, and
    deletes compiled kernels whose source was removed."""

    def run(self):
        if self.inplace or self.editable_mode:
            platform = f"{self.plat_name}-{sys.implementation.cache_tag}"
            self.build_lib, self.build_temp = f"build/lib.{platform}", f"build/temp.{platform}"
            kernels = {f"{name}.abi3.so" for name in (*BUILD["KERNELS"], BUILD["SHARED"], BUILD["STAMP"])}
            for path in PACKAGE.glob("*.so"):  # a kernel compiled for one version would be preferred
                if path.name not in kernels:
                    path.unlink()
        super().run()


if not (COMPILING | {"dist_info"}).isdisjoint(sys.argv):
    refuse_without_compiler()
setup(
    cmdclass={"build_ext": BuildKernels},
    ext_modules=[] if COMPILING.isdisjoint(sys.argv) else extensions(),
    options={"build_ext": {"parallel": os.cpu_count()}, "bdist_wheel": {"py_limited_api": "cp311"}},
)
