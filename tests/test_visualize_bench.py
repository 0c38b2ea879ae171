"""The visualizer's benchmark runs, on a run that never ends, and its engine is sound."""

import json

from harness import check_scheduler

from visualize.bench import MadeUp, main


def test_the_made_up_run_is_a_real_one():
    run = MadeUp(num_blocks=20, num_seqs=4)
    num_finished = 0
    for _ in range(120):
        result = run.step()
        check_scheduler(run.scheduler)
        num_finished += sum(type(event).__name__ == "Finished" for event in result.events)
    assert num_finished > 5 and result.plan.rows


def test_it_prints_json(capsys):
    main(["--runs", "2", "--steps", "20", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [row["size"] for row in found["frames"]] == ["80x24", "120x36", "200x60", "120x36"]
    assert all(0 < row["frame_ms"]["least"] <= row["frame_ms"]["most"] for row in found["frames"])
    assert found["history"]["steps"] == 20 and found["history"]["megabytes"] > 0
