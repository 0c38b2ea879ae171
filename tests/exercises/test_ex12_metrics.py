"""The checks of exercise 12: short timelines by hand, then drawn ones, all beside exact fractions.

A sum may be taken in any order: what is allowed is a few roundings of a number as large as the clock's.
"""

import pytest
from ex12_times import check_itl, check_normalized, check_percentile, check_throughput, check_ttft, drawn, request

UNIX = 1_700_000_000.0  # a clock that began long ago

# ------------------------------------------------------------------------------------------------ one request


@pytest.mark.parametrize("arrival, times", [(0.0, (1.0, 1.5, 3.0)), (10.0, (10.25,)), (2.5, (6.0, 6.0, 7.0))])
def test_ttft_is_from_arrival_to_the_first_token(impl, arrival, times):
    why = f"The first token came at {times[0]:g}, the request at {arrival:g}"
    check_ttft(impl, request(arrival, *times), why)


def test_ttft_has_the_waiting_in_it(impl):
    one = request(2.0, 5.0, 5.5, waited=2.5)
    check_ttft(impl, one, "That its first step began at 4.5 doesn't matter: it waited since 2, and so did its user")


@pytest.mark.parametrize("times", [(1.0, 1.5, 3.0), (4.0, 6.0, 6.5, 6.75, 9.0), (0.5, 0.625)])
def test_itl_is_between_a_token_and_the_one_before(impl, times):
    why = "It must be the time from each token to the next one; nothing comes before the first: its time is the TTFT"
    for arrival in (0.0, 0.25):
        check_itl(impl, request(arrival, *times), why)


def test_itl_of_a_single_token_is_empty(impl):
    check_itl(impl, request(1.0, 3.0), "There is no token before the first one")


def test_itl_keeps_the_order_of_the_tokens(impl):
    why = "The gaps must stand in the order of the tokens, so that one sees when the stall was"
    check_itl(impl, request(0.0, 1.0, 1.5, 5.5, 5.75, 7.0), why)


def test_itl_of_tokens_that_come_together(impl):
    why = "Of two tokens at the same moment the second comes 0 s after the first, and that is a gap too"
    check_itl(impl, request(0.0, 2.0, 2.0, 2.5, 2.5, 2.5), why)


@pytest.mark.parametrize("start", [0.0, 3000.0, UNIX])
def test_one_request_on_any_clock(impl, start):
    for number, one in enumerate(drawn(seed=int(start), count=20, start=start)):
        why = f"It is request {number} of 20, on a clock that stood at {start:,.0f} when they began to come"
        check_ttft(impl, one, why)
        check_itl(impl, one, why)


# ------------------------------------------------------------------------------------------------ all requests


def test_normalized_latency_of_one_request(impl):
    check_normalized(impl, [request(1.0, 3.0, 4.0, 5.0)], "From 1 to 5 are 4 s, for 3 tokens")
    check_normalized(impl, [request(2.0, 6.0)], "From 2 to 6 are 4 s, for 1 token")


def test_normalized_latency_has_the_waiting_in_it(impl):
    why = "12 s from its arrival to its last token, for 3 tokens, though its first step began only at 9"
    check_normalized(impl, [request(0.0, 10.0, 11.0, 12.0, waited=9.0)], why)


def test_normalized_latency_is_a_mean_of_quotients(impl):
    requests = [request(10.0, 11.0, 11.5, 13.0), request(12.0, 16.0)]
    check_normalized(impl, requests, "3 s for 3 tokens, 4 s for 1 token: the mean of 1 and 4, not 7 s over 4 tokens")
    requests = [request(0.0, *(float(at) for at in range(1, 11))), request(0.0, 11.0), request(0.0, 3.0)]
    check_normalized(impl, requests, "It is the mean of 1, 11 and 3: neither 24 s over 12 tokens nor the median")


def test_normalized_latency_counts_output_tokens_only(impl):
    requests = [request(0.0, 2.0, 4.0, prompt=100), request(0.0, 6.0, prompt=1)]
    check_normalized(impl, requests, "4 s for 2 tokens and 6 s for 1: however long the prompts were")


def test_throughput_of_one_request(impl):
    check_throughput(impl, [request(0.0, 2.0, 3.0, 4.0)], "3 tokens in the 4 s from its arrival to its last token")
    check_throughput(
        impl, [request(0.0, 2.0, 3.0, 4.0, prompt=500)], "3 tokens in 4 s: those of the prompt don't count"
    )


def test_throughput_begins_with_the_first_arrival(impl):
    why = "4 tokens, from the first arrival at 10 to the last token at 16; neither from 0 nor from the first token"
    check_throughput(impl, [request(10.0, 11.0, 11.5, 13.0), request(12.0, 16.0)], why)


def test_throughput_ends_with_the_last_token(impl):
    why = "5 tokens, from 0 to 20. The request that comes last ends first, and all that counts is the last token of all"
    check_throughput(impl, [request(0.0, 5.0, 10.0, 20.0), request(7.0, 8.0, 9.0)], why)


def test_throughput_takes_seconds_once(impl):
    requests = [request(0.0, 1.0, 2.0, 3.0, 4.0), request(0.0, 2.0, 4.0)]
    why = "6 tokens in 4 s: two requests that are served side by side don't take 8 s"
    check_throughput(impl, requests, why)
    requests = [request(0.0, 1.0, 2.0), request(8.0, 9.0, 10.0)]
    check_throughput(impl, requests, "4 tokens in 10 s: the seconds in which nobody was served count too")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_requests_come_in_any_order(impl, order):
    three = [request(5.0, 6.0, 30.0), request(2.0, 4.0, 8.0, 9.0), request(7.0, 8.5)]
    requests = [three[i] for i in order]
    check_throughput(
        impl, requests, "6 tokens, from the arrival at 2 to the token at 30, wherever in the list they are"
    )
    check_normalized(impl, requests, "It is the mean of 12.5, 7 / 3 and 1.5, in whatever order they come")


@pytest.mark.parametrize("count, start", [(1, 0.0), (2, 50.0), (9, 3000.0), (60, 0.0), (60, UNIX)])
def test_many_requests(impl, count, start):
    requests = drawn(seed=count, count=count, start=start)
    why = f"The clock stood at {start:,.0f} when they began to come"
    check_normalized(impl, requests, f"{why}. It is the mean of a quotient for each request")
    check_throughput(impl, requests, f"{why}. It is all tokens over the time from the first arrival to the last token")


def test_nothing_is_remembered(impl):
    requests = [request(0.0, 1.0, 2.0)]
    check_throughput(impl, requests, "2 tokens in 2 s")
    requests.append(request(0.5, 4.0))
    check_throughput(impl, requests, "The same list as in the call before, with a request more: 3 tokens in 4 s")
    check_normalized(impl, requests, "It is the mean of 1 and 3.5")


# ------------------------------------------------------------------------------------------------ percentile


@pytest.mark.parametrize(
    "percent, why", [(0, "It is the smallest"), (50, "It is the median"), (100, "It is the largest")]
)
def test_percentile_of_five(impl, percent, why):
    check_percentile(impl, [1.0, 2.0, 4.0, 8.0, 16.0], percent, why)


def test_percentile_of_values_in_any_order(impl):
    for values in ([8.0, 1.0, 16.0, 4.0, 2.0], [16.0, 8.0, 4.0, 2.0, 1.0]):
        for percent in (0, 25, 75, 100):
            check_percentile(impl, values, percent, "Places are counted when the values are sorted")


def test_percentile_between_two_values(impl):
    check_percentile(impl, [1.0, 2.0, 4.0, 8.0], 50, "It lies halfway between 2 and 4")
    check_percentile(impl, [0.0, 100.0], 90, "It lies between the two, nine tenths of the way up")
    check_percentile(impl, [0.0, 1.0, 2.0, 10.0], 75, "It is three quarters of 2 and one quarter of 10")
    check_percentile(impl, [float(i * i) for i in range(1, 11)], 99, "It is 0.09 of 81 and 0.91 of 100")


def test_percentile_of_a_single_value(impl):
    for percent in (0, 37, 50, 99, 100):
        check_percentile(impl, [2.5], percent, "There is no other")


def test_percentile_of_values_that_are_alike(impl):
    for percent in (20, 50, 90):
        check_percentile(impl, [3.0, 1.0, 3.0, 3.0, 2.0, 3.0], percent, "A value counts as often as it is there")


@pytest.mark.parametrize("count", [2, 3, 7, 100, 101, 250])
def test_every_percentile(impl, count):
    values = [(7919 * i % 1009) ** 2 / 1e6 for i in range(count)]
    for percent in range(101):
        check_percentile(impl, values, percent, f"There are {count} values, so the largest has the place {count - 1}")
