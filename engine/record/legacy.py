from typing import NamedTuple
class D(NamedTuple):
    data: memoryview
    code: str|None
    problem: str
    def counts(self): return [0]
def decode_entry(data,batches,row,records,limit): return D(data,"record-invalid","not yet")
