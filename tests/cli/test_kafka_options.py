"""The command line as kafka-dump-log takes it: what its option parser does that click does not."""

from __future__ import annotations

import pytest

from tests.support.run import kafkalog

LOG = "clean/d1/small_segments-0/00000000000000000000.log"


@pytest.fixture(scope="module")
def logs(own_corpus):
    return own_corpus / "kafka-4.3.1/logs"


@pytest.mark.parametrize("flag", ["--deep-iteration", "--print-data-log", "--skip-record-metadata", "--offsets-decoder"])
@pytest.mark.parametrize("value", ["=true", "=", "=whatever", "=1"])
def test_a_flag_may_have_a_value_that_means_nothing(logs, flag, value):
    plain = kafkalog("dump-log", "--files", LOG, flag, cwd=logs)
    for given in (flag + value, flag[1:] + value, f"{flag} {flag}"):
        done = kafkalog("dump-log", "--files", LOG, *given.split(" "), cwd=logs)
        assert (done.out, done.status, done.err) == (plain.out, plain.status, plain.err)


@pytest.mark.parametrize("value", ["false", "FALSE", "no", "0"])
def test_a_value_does_not_switch_a_flag_off_and_that_is_said(logs, value):
    done = kafkalog("dump-log", "--files", LOG, f"--deep-iteration={value}", cwd=logs)
    assert done.out == kafkalog("dump-log", "--files", LOG, "--deep-iteration", cwd=logs).out
    assert done.err == f"--deep-iteration={value} sets --deep-iteration, as with kafka-dump-log: remove it instead\n"
    assert done.status == 0


@pytest.mark.parametrize("flag", ["--count=true", "--transactional-only=false", "--continue-on-corruption="])
def test_flags_of_our_own_take_no_value(logs, flag):
    done = kafkalog("dump-log", flag, LOG, cwd=logs)
    assert done.status == 2
    assert done.out == b""


def test_behind_two_dashes_nothing_is_an_option(tmp_path):
    (tmp_path / "--deep-iteration=true").mkdir()
    assert kafkalog("dump-log", "--", "--deep-iteration=true", cwd=tmp_path).status == 0
