"""The timers of the coordinator."""

from engine.serve.group_common import Timers


def test_actions_run_in_the_order_of_their_deadlines_as_if_at_them():
    timers, seen = Timers(100), []

    def note(name, then=None):
        def action():
            seen.append((name, timers.now_ms))
            if then is not None:
                timers.schedule(*then)

        return action

    timers.schedule("late", 50, note("late"))
    timers.schedule("early", 10, note("early", ("following", 20, note("following"))))
    timers.schedule("moved", 5, note("moved too early"))
    timers.schedule("moved", 60, note("moved"))
    timers.schedule("cancelled", 1, note("cancelled"))
    timers.cancel("cancelled")
    assert timers.next_ms() == 110
    assert timers.expire(155)
    assert seen == [("early", 110), ("following", 130), ("late", 150)]
    assert timers.now_ms == 155
    assert not timers.expire(155)
    assert timers.expire(160)
    assert seen[-1] == ("moved", 160)
    assert timers.next_ms() is None


def test_actions_that_are_scheduled_again_and_again_take_no_memory():
    timers = Timers(0)
    for number in range(10_000):
        timers.schedule("heartbeat", 1_000_000 + number, lambda: None)
    assert len(timers._queue) < 100
