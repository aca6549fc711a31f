"""Starts a program from a process that is itself small: to the system, a program's peak memory begins with its parent's.

    python launch.py DESCRIPTOR CORES PROGRAM ARGUMENT…

Writes [wait status, seconds, processor seconds, largest resident set in KiB] as JSON to the open file DESCRIPTOR.
CORES is how many processors the program may use; 0: all.
"""

import json
import os
import sys
import time

if __name__ == "__main__":
    report, cores, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(report, False)
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - start
    os.write(report, json.dumps([status, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]).encode())
