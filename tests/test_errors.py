"""What messages are made of."""

from puridiver.errors import counted, few


def test_a_message_names_a_few_and_counts_the_rest():
    assert few(["a"]) == "a"
    assert few("abc", most=3) == "a, b, c"
    assert (counted(1, "run"), counted(4_000, "run")) == ("1 run", "4,000 runs")
    assert few((str(number) for number in range(4_000)), most=2) == "0, 1 and 3,998 more"
