"""What reported usage teaches, as a table."""

import pytest

from unspool.context.correction import Correction
from unspool.kernel.messages import Usage

M = "provider/model"


@pytest.mark.parametrize(
    ("reports", "estimated", "corrected", "ignored"),
    [
        pytest.param([], 1000, 1000, 0, id="nothing learnt"),
        pytest.param([(M, 1000, Usage(input_tokens=1200))], 500, 600, 0, id="more than estimated"),
        pytest.param([(M, 1000, Usage(input_tokens=800))], 500, 400, 0, id="less than estimated"),
        pytest.param(
            [(M, 1000, Usage(input_tokens=200, cache_read_tokens=900, cache_write_tokens=100))],
            500,
            600,
            0,
            id="cached",
        ),
        pytest.param(
            [(M, 1000, Usage(input_tokens=1000, output_tokens=900))], 500, 500, 0, id="output is no context"
        ),
        pytest.param(
            [(M, 1000, Usage(input_tokens=2000)), (M, 2000, Usage(input_tokens=2200))],
            500,
            550,
            0,
            id="the newest",
        ),
        pytest.param([("other/model", 1000, Usage(input_tokens=2000))], 500, 500, 0, id="another model"),
        pytest.param([(M, 1000, Usage())], 500, 500, 1, id="no report"),
        pytest.param([(M, 1000, Usage(input_tokens=-5))], 500, 500, 1, id="negative"),
        pytest.param([(M, 1000, Usage(input_tokens=249))], 500, 500, 1, id="absurdly few"),
        pytest.param([(M, 1000, Usage(input_tokens=4001))], 500, 500, 1, id="absurdly many"),
        pytest.param([(M, 1000, Usage(input_tokens=250))], 500, 125, 0, id="as few as is believed"),
        pytest.param([(M, 1000, Usage(input_tokens=4000))], 500, 2000, 0, id="as many as is believed"),
        pytest.param([(M, 0, Usage(input_tokens=10))], 500, 500, 1, id="nothing was estimated"),
        pytest.param(
            [(M, 1000, Usage(input_tokens=1200)), (M, 1000, Usage()), (M, 9, Usage(input_tokens=9000))],
            500,
            600,
            2,
            id="what is absurd does not unlearn",
        ),
        pytest.param([(M, 1000, Usage(input_tokens=300))], 1, 1, 0, id="something stays something"),
        pytest.param([(M, 1000, Usage(input_tokens=1200))], 0, 0, 0, id="nothing stays nothing"),
    ],
)
def test_correction(
    reports: list[tuple[str, int, Usage]], estimated: int, corrected: int, ignored: int
) -> None:
    correction = Correction()
    for model, guess, usage in reports:
        correction.measured(model, guess, usage)
    assert (correction.apply(M, estimated), correction.ignored) == (corrected, ignored)
