"""What tests/golden/*.kafka says that Kafka prints, asked of the real tool. `--rewrite` stores its answers."""

import shutil
from pathlib import Path

import pytest

from tests.support.golden import check, spoken

pytestmark = pytest.mark.oracle
FILES = sorted((Path(__file__).parents[1] / "golden").glob("*.kafka"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kafka_says_so(file, own_corpus, real_dump, tmp_path, request):
    logs = tmp_path / "logs"  # a copy: the real tool may change what it reads
    shutil.copytree(own_corpus / "kafka-4.3.1/logs", logs)

    def speak(words):
        ran = real_dump(words[1:], logs, own_jvm=True)
        return spoken(ran.stdout, ran.stderr.decode(), ran.exit, logs)

    check(file, speak, rewrite=request.config.getoption("--rewrite"))
