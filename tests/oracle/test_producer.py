"""Random scripts of sends through the real producer and ours."""

import json
import os
import random
import subprocess

import pytest

from tests.oracle.jvm import ENVIRONMENT, OPTIONS, class_path
from tests.producer.comparing import difference
from tests.producer.random_scripts import random_script

pytestmark = pytest.mark.oracle
SCRIPTS = 60


def test_random_scripts_end_alike():
    seed = os.environ.get("KAFKALOG_PRODUCER_SEED") or str(random.randrange(10**9))
    rng = random.Random(seed)
    scripts = [random_script(rng) for _ in range(SCRIPTS)]
    command = ["java", *OPTIONS, "-cp", class_path(), "org.apache.kafka.clients.producer.Scripted", "-"]
    given = "".join(json.dumps(script) + "\n" for script in scripts)
    ran = subprocess.run(command, input=given.encode(), capture_output=True, check=True, env=ENVIRONMENT, timeout=600)
    results = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(results) == SCRIPTS
    for number, (script, result) in enumerate(zip(scripts, results, strict=True)):
        assert difference(script, result) is None, f"KAFKALOG_PRODUCER_SEED={seed}, script {number}: {json.dumps(script)}"
