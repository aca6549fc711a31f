"""What we say of every dump of the corpus: exit status and findings, in our own words (corpus.findings).

`pytest tests/golden --rewrite` stores it anew, then read the diff. A run that is not listed ends with 0 and has nothing to say.
"""

import re
from pathlib import Path

from tests.support.corpus import dump_runs, own_corpus_directory, roots
from tests.support.run import kafkalog

STORED = Path(__file__).parent / "corpus.findings"
FINDING = re.compile(r"((?:error|warning|info)\[[\w-]+\]).*?((?: at byte \d+)?(?:, offset -?\d+)?): ")


def test_same_findings(request):
    now = {name: lines for name, lines in said_of_all() if lines}
    if request.config.getoption("--rewrite"):
        blocks = [[f"$ {name}", *lines] for name, lines in now.items()]
        STORED.write_text("".join(f"{line}\n" for block in blocks for line in block), encoding="utf-8")
    stored = stored_findings()
    assert now.keys() == stored.keys()
    assert [name for name in now if now[name] != stored[name]] == []
    assert len(stored) > 100


def said_of_all():
    for root in roots(own_corpus_directory()):
        for run in dump_runs(root):
            done = kafkalog("dump-log", *run.arguments, cwd=run.logs)
            yield run.name, [*findings(done.err), *([f"=> {done.status}"] if done.status else [])]


def findings(err):
    """Code and place of each; not its prose, and not the path, which the name of the run holds."""
    return [f"2| {''.join(found.groups())}" for line in err.splitlines() if (found := FINDING.match(line))]


def stored_findings():
    stored = {}
    for line in STORED.read_text(encoding="utf-8").splitlines():
        if line.startswith("$ "):
            stored[line[2:]] = said = []
        else:
            said.append(line)
    return stored
