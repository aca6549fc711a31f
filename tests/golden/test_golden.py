"""The conversations beside this file: Kafka's words on stdout, and our own everywhere."""

from pathlib import Path

import pytest

from tests.support.golden import check, read, spoken
from tests.support.run import kafkalog

HERE = Path(__file__).parent
OURS = sorted(HERE.glob("*.test"))
KAFKAS = sorted(HERE.glob("*.kafka"))


def test_there_are_conversations():
    """Where none is found nothing would be held."""
    assert OURS
    assert KAFKAS


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.stem)
def test_our_own_words(file, own_corpus, request):
    logs = own_corpus / "kafka-4.3.1/logs"

    def speak(words):
        done = kafkalog(*words, cwd=logs)
        return spoken(done.out, done.err, done.status, logs)

    check(file, speak, rewrite=request.config.getoption("--rewrite"))


@pytest.mark.parametrize("file", KAFKAS, ids=lambda file: file.stem)
def test_kafkas_words_on_stdout(file, own_corpus):
    """Only stdout, and where Kafka's tool did not die; tests/oracle asks the real tool whether it still says so."""
    logs = own_corpus / "kafka-4.3.1/logs"
    turns = read(file)
    assert turns
    for turn in turns:
        assert not turn.said or not turn.said[-1].startswith("=>")
        wanted = [line for line in turn.said if not line.startswith("2| ")]
        done = kafkalog(*turn.words, cwd=logs)
        assert spoken(done.out, "", 0, logs) == wanted
