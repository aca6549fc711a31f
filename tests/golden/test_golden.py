"""The conversations beside this file: Kafka's words on stdout, and our own everywhere."""

from pathlib import Path

import pytest

from tests.support.golden import check, read, spoken
from tests.support.run import kafkalog

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", sorted(HERE.glob("*.test")), ids=lambda file: file.stem)
def test_our_own_words(file, own_corpus, request):
    logs = own_corpus / "kafka-4.3.1/logs"

    def speak(words):
        done = kafkalog(*words, cwd=logs)
        return spoken(done.out, done.err, done.status, logs)

    check(file, speak, rewrite=request.config.getoption("--rewrite"))


@pytest.mark.parametrize("file", sorted(HERE.glob("*.kafka")), ids=lambda file: file.stem)
def test_kafkas_words_on_stdout(file, own_corpus):
    """Only stdout, and where Kafka's tool did not die; tests/oracle asks the real tool whether it still says so."""
    logs = own_corpus / "kafka-4.3.1/logs"
    for turn in read(file):
        assert not turn.said or not turn.said[-1].startswith("=>")
        wanted = [line for line in turn.said if not line.startswith("2| ")]
        done = kafkalog(*turn.words, cwd=logs)
        assert spoken(done.out, "", 0, logs) == wanted
